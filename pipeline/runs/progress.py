"""How far a long computation has come, and how long it will take."""

import time

from tqdm import tqdm

LAYOUT = "{l_bar}{bar}| {elapsed} elapsed, {remaining} left{postfix}"


class Progress:
    """A bar with an estimate on a terminal, a plain line now and then elsewhere."""

    def __init__(self, title: str, runs: int, total: float, unit: str = "runs") -> None:
        self.title, self.runs, self.total, self.unit = title, runs, total, unit
        self.finished, self.start, self.last = 0, time.monotonic(), 0.0
        self.bar = tqdm(total=round(total, 3), desc=title, bar_format=LAYOUT, dynamic_ncols=True, disable=None)

    def show(self, done: float, force: bool = False) -> None:
        """Show that ``done`` of the total is done."""
        counts = f"{self.finished}/{self.runs} {self.unit}"
        if not self.bar.disable:
            self.bar.n = min(done, self.total)
            self.bar.set_postfix_str(counts)
        elif force or time.monotonic() - self.last >= 30:
            self.last = time.monotonic()
            share = min(done / self.total, 1.0) if self.total else 1.0
            elapsed = self.last - self.start
            left = f", about {elapsed / share - elapsed:.0f} s left" if 0.02 < share < 1 else ""
            print(f"{self.title}: {counts}, {share:.0%}, {elapsed:.0f} s{left}", flush=True)

    def close(self) -> None:
        """Leave the bar as it is."""
        self.bar.close()
