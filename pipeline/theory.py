"""Stage theory: random pattern association (section 4, appendix A.2.1), computed, as one long CSV."""

import itertools
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from noracl import EWCSettings, theory
from noracl.seeds import generator
from pipeline.files import write_json
from pipeline.params import Params, load_or_exit
from pipeline.paths import RESULTS
from pipeline.runs import machine
from pipeline.train import write_csv

#: experiment, method, width M⁰, seed ("all": of no seed, or pooled), x, quantity, value
Row = tuple[str, str, int, int | str, float, str, float]
COLUMNS = ("experiment", "method", "width", "seed", "x", "quantity", "value")

WINDOWS = ((0, 1), (1, 10), (10, 100), (100, 1000))  # of t/M⁰, for the exponent of the stored share
MEASURES = {"snr": theory.signal_to_noise, "right": theory.right}
LEVELS = {"snr": 1.0, "right": 0.95}  # retention has broken below these
POINTS = 24  # of a curve, evenly spaced on a logarithmic scale
PRIOR = 1e-6  # under the full Fisher, against |x|² = 1
EARLY = 8  # tasks before the one whose update theorem 1 is measured on
GATES = 128  # tasks in which Eq. 5 is asked
STARTS, REPEATS = 8, 8  # patterns whose recall crosstalk is measured on, and sequences a seed


def share_rows(params: Params) -> Iterator[Row]:
    """Share of a new association that static EWC stores (x: task), and its exponent (x: window's start over M⁰)."""
    for width in params.theory.widths:
        for low, high in WINDOWS:
            tasks = theory.spaced(max(1, low * width), high * width, POINTS)
            metrics = [torch.full((width,), t / width, dtype=torch.float64) for t in tasks]
            shares: list[float] = []
            for seed in params.seeds:
                draws = generator(seed, "theory", "share", width, low)
                features = theory.draw(len(tasks), params.theory.inputs, width, draws).static(width).features
                drawn = [theory.stored_share(x, metric) for x, metric in zip(features, metrics, strict=True)]
                for t, share in zip(tasks, drawn, strict=True):
                    yield "share", "ewc", width, seed, t, "share", share
                shares += drawn
            at = torch.tensor(tasks, dtype=torch.float64)
            for method, fit in (
                ("ewc", theory.fit_exponent(at.repeat(len(params.seeds)), torch.tensor(shares, dtype=torch.float64))),
                ("ewc expected", theory.fit_exponent(at, 1 / (1 + at / width))),
            ):
                yield from fit_rows("share exponent", method, width, low, fit)


def recalls(params: Params, width: int, seed: int) -> Iterator[tuple[str, Tensor]]:
    """What each method recalls, all of them of the same patterns."""
    tasks, few = params.theory.tasks, params.theory.few_inputs
    widths = theory.whole_widths(width, tasks, params.noracl.gamma)
    drawn = theory.draw(tasks, params.theory.inputs, widths[-1], generator(seed, "theory", "recall", width))
    static, wide = drawn.static(width), drawn.static(widths[-1])
    cramped = theory.draw(tasks, few, width, generator(seed, "theory", "cramped", width)).static(width)
    yield "gd", theory.recall(static, theory.gradient_descent(static))
    yield "ewc", theory.recall(static, theory.static_ewc(static))
    yield "ewc full Fisher", theory.recall(static, theory.full_fisher_ewc(static, PRIOR))
    yield "ewc final width", theory.recall(wide, theory.static_ewc(wide))
    yield "noracl", theory.recall(drawn, theory.noracl(drawn, widths))
    yield "noracl ε=1", theory.recall(drawn, theory.noracl(drawn, widths, 1.0))
    yield f"ewc d={few}", theory.recall(cramped, theory.static_ewc(cramped))


def recall_rows(params: Params) -> Iterator[Row]:
    """Recall of all patterns so far (x: tasks), and, pooled over seeds, of the first M⁰/2 (x: age)."""
    tasks = params.theory.tasks
    counts = theory.spaced(4, tasks, POINTS)
    for width in params.theory.widths:
        starts = width // 2
        ages = theory.spaced(1, tasks - starts, POINTS)
        curves: dict[tuple[str, str], list[list[float]]] = {}
        aged: dict[str, list[Tensor]] = {}
        for seed in params.seeds:
            for method, recalled in recalls(params, width, seed):
                aged.setdefault(method, []).append(torch.stack([theory.at_age(recalled, age, starts) for age in ages]))
                for quantity, measure in MEASURES.items():
                    values = [measure(theory.so_far(recalled, n - 1)) for n in counts]
                    curves.setdefault((method, quantity), []).append(values)
                    for n, value in zip(counts, values, strict=True):
                        yield "retention", method, width, seed, n, quantity, value
        for method, found in aged.items():
            pooled = torch.cat(found, dim=1)
            for quantity, measure in MEASURES.items():
                yield from age_rows(method, width, ages, quantity, [measure(values) for values in pooled])
        steps = {"gd expected": [1.0] * tasks, "ewc expected": [width / (width + t) for t in range(tasks)]}
        for method, a in steps.items():
            moments = theory.expected_recall(a, width)
            values = [moments.signal_to_noise(_so_far(n)) for n in counts]
            curves[method, "snr"] = [values]
            for n, value in zip(counts, values, strict=True):
                yield "retention", method, width, "all", n, "snr", value
            expected = [moments.signal_to_noise(_at_age(age, starts)) for age in ages]
            yield from age_rows(method, width, ages, "snr", expected)
        yield from retention_summary(width, params.seeds, counts, curves)


def age_rows(
    method: str, width: int, ages: list[int], quantity: str, values: list[float], experiment: str = "age"
) -> Iterator[Row]:
    """A curve against age, and the age at which it falls below its level (x)."""
    for age, value in zip(ages, values, strict=True):
        yield experiment, method, width, "all", age, quantity, value
    level = LEVELS[quantity]
    yield "lifetime", method, width, "all", level, quantity, theory.falls_below(ages, values, level)


def retention_summary(
    width: int, seeds: tuple[int, ...], counts: list[int], curves: dict[tuple[str, str], list[list[float]]]
) -> Iterator[Row]:
    """Where retention falls below a level (x), in t/M⁰, by seed and of the mean; the exponent of EWC's tail."""
    for (method, quantity), found in curves.items():
        level = LEVELS[quantity]
        for seed, values in zip(seeds, found, strict=False):
            if len(found) > 1:
                yield "break", method, width, seed, level, quantity, theory.falls_below(counts, values, level) / width
        mean = torch.tensor(found, dtype=torch.float64).mean(0).tolist()
        yield "break", method, width, "all", level, quantity, theory.falls_below(counts, mean, level) / width
        tail = [i for i, n in enumerate(counts) if n >= 2 * width]
        if (method, quantity) in (("ewc", "snr"), ("ewc expected", "snr")) and len(tail) >= 5:
            n = torch.tensor(counts)[tail]
            fits = [theory.fit_exponent(n, torch.tensor(values, dtype=torch.float64)[tail]) for values in found]
            if len(fits) >= 4:
                fits = [theory.mean_fit([fit.exponent for fit in fits])]
            yield from fit_rows("snr exponent", method, width, 2, fits[0])


def fit_rows(experiment: str, method: str, width: int, x: float, fit: theory.Fit) -> Iterator[Row]:
    """An exponent and its interval, pooled over seeds."""
    for quantity, value in (("exponent", fit.exponent), ("low", fit.low), ("high", fit.high)):
        yield experiment, method, width, "all", x, quantity, value


def _so_far(count: int) -> Callable[[Tensor], Tensor]:
    return lambda matrix: theory.so_far(matrix, count - 1)


def _at_age(age: int, starts: int) -> Callable[[Tensor], Tensor]:
    return lambda matrix: theory.at_age(matrix, age, starts)


def theorem_rows(params: Params) -> Iterator[Row]:
    """Theorem 1 and corollary 1 against ε (x), the error's exponent, and recall through a pattern's own units."""
    for width in params.theory.widths:
        widths = theory.whole_widths(width, EARLY + 1, params.noracl.gamma)
        errors: list[float] = []
        for seed in params.seeds:
            draws = generator(seed, "theory", "theorem", width)
            drawn = theory.draw(len(widths), params.theory.inputs, widths[-1], draws)
            for epsilon in params.theory.epsilons:
                found = theory.preservation(drawn, widths, epsilon)
                errors.append(found.old)
                for quantity in ("old", "new", "unlearnt", "printed"):
                    yield "theorem", "noracl", width, seed, epsilon, quantity, getattr(found, quantity)
            final = theory.noracl(drawn, widths)[-1]
            off = (theory.own_units(drawn, final, widths) - 1).abs().max()
            yield "own units", "noracl", width, seed, len(widths), "error", float(off)
        middle = torch.tensor(errors, dtype=torch.float64).view(len(params.seeds), -1).log().mean(0).exp()
        least, order = torch.tensor(params.theory.epsilons, dtype=torch.float64).sort()
        yield from fit_rows("theorem exponent", "noracl", width, 0, theory.fit_exponent(least[:5], middle[order][:5]))


def crosstalk_rows(params: Params) -> Iterator[Row]:
    """Recall of NORACL's first patterns against age (x) with k new units a task, and the age at which SNR < 1."""
    width, starts, ages = params.theory.widths[0], STARTS, theory.spaced(1, 64, POINTS)
    tasks = starts + ages[-1]
    for neurons in params.theory.neurons:
        method = f"noracl k={neurons}"
        widths = [width + neurons * t for t in range(tasks)]
        found: list[list[Tensor]] = [[] for _ in ages]
        for seed, repeat in itertools.product(params.seeds, range(REPEATS)):
            draws = generator(seed, "theory", "crosstalk", neurons, repeat)
            drawn = theory.draw(tasks, params.theory.inputs, widths[-1], draws)
            recalled = theory.recall(drawn, theory.noracl(drawn, widths))
            for values, age in zip(found, ages, strict=True):
                values.append(theory.at_age(recalled, age, starts))
        noises = [sum(theory.expected_noise(neurons, width, s, age) for s in range(starts)) / starts for age in ages]
        for name, curve in (
            (method, [theory.signal_to_noise(torch.cat(values)) for values in found]),
            (f"{method} expected", [noise**-0.5 for noise in noises]),
        ):
            yield from age_rows(name, width, ages, "snr", curve, "crosstalk")


def growth_rows(params: Params) -> Iterator[Row]:
    """Width in each task (x) with fractions of neurons and with whole ones, and EWC's share if Λ were t/M(t)."""
    tasks, gamma = params.theory.tasks, params.noracl.gamma
    for width in params.theory.widths:
        for method, widths in (
            ("fractional", theory.fractional_widths(width, tasks, gamma)),
            ("whole", theory.whole_widths(width, tasks, gamma)),
        ):
            for n in theory.spaced(1, tasks, POINTS):
                yield "growth", method, width, "all", n - 1, "width", widths[n - 1]
                yield "growth", method, width, "all", n - 1, "share", 1 / (1 + (n - 1) / widths[n - 1])
            yield "growth", method, width, "all", tasks - 1, "slope", (widths[-1] - widths[0]) / (tasks - 1)


def gate_rows(params: Params) -> Iterator[Row]:
    """Share of tasks in which Eq. 5 opens at percentile x, for Fishers averaged (Eq. 1) and summed (appendix A.2.1)."""
    averages = {"averaged": EWCSettings(decay=params.ewc.decay), "summed": None}
    for width in params.theory.widths:
        for seed in params.seeds:
            draws = generator(seed, "theory", "gate", width)
            fisher = theory.draw(GATES, params.theory.inputs, width, draws).features.square()
            for method, average in averages.items():
                for p in sorted({params.noracl.percentile, 50.0, 75.0, 90.0, 100.0}):
                    opens = theory.gate_opens(fisher, p, average)
                    yield "gate", method, width, seed, p, "opens", sum(opens) / len(opens)


def main() -> None:
    """Command line of the stage."""
    torch.set_num_threads(1)
    params = load_or_exit()
    parts = (share_rows, recall_rows, theorem_rows, crosstalk_rows, growth_rows, gate_rows)
    rows: list[dict[str, object]] = []
    for step, part in enumerate(parts, start=1):
        print(f"theory: {part.__name__.removesuffix('_rows')}, part {step} of {len(parts)}", flush=True)
        for row in part(params):
            rows.append({**dict(zip(COLUMNS, row, strict=True)), "x": f"{row[4]:.6g}", "value": f"{row[6]:.6g}"})
    write_csv(RESULTS / "theory.csv", rows, COLUMNS)
    write_json(RESULTS / "theory.provenance.json", [machine()])
    print(f"theory: {len(rows)} numbers")


if __name__ == "__main__":
    main()
