"""Stage theory: random pattern association (section 4, appendix A.2.1), computed, as one long CSV."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import torch
from torch import Tensor

from noracl import EWCSettings
from noracl.analysis import recall, theory
from noracl.method.seeds import generator
from pipeline.config import Params, load
from pipeline.experiments.power_laws import fit_exponent, mean_fit
from pipeline.files import write_csv, write_json
from pipeline.paths import RESULTS
from pipeline.runs.provenance import machine

#: experiment, method, width M⁰, seed ("all": without a seed, or pooled), x, values by quantity
Rows = Iterator[tuple[str, str, int, int | str, float, dict[str, float]]]
Curves = dict[tuple[str, str], list[list[float]]]  # by method and quantity, per seed
COLUMNS = ("experiment", "method", "width", "seed", "x", "quantity", "value")

WINDOWS = ((0, 1), (1, 10), (10, 100), (100, 1000))  # of t/M⁰, for the exponent of the stored share
MEASURES = {"snr": recall.signal_to_noise, "right": recall.right}
LEVELS = {"snr": 1.0, "right": 0.95}  # retention has broken below these
POINTS = 24  # of a curve, evenly spaced on a logarithmic scale
PRIOR = 1e-6  # under the full Fisher, against |x|² = 1
EARLY = 8  # tasks before the one whose update theorem 1 is measured on
GATES = 128  # tasks in which Eq. 5 is asked
STARTS, REPEATS = 8, 8  # patterns whose recall crosstalk is measured on, and sequences per seed


def curve(
    experiment: str, method: str, width: int, seed: int | str, xs: list[int], quantity: str, values: list[float]
) -> Rows:
    """A row for each x."""
    for x, value in zip(xs, values, strict=True):
        yield experiment, method, width, seed, x, {quantity: value}


def age_rows(experiment: str, method: str, width: int, ages: list[int], quantity: str, values: list[float]) -> Rows:
    """A curve against age, and the age at which it falls below its level (x)."""
    yield from curve(experiment, method, width, "all", ages, quantity, values)
    level = LEVELS[quantity]
    yield "lifetime", method, width, "all", level, {quantity: recall.falls_below(ages, values, level)}


def share_rows(params: Params) -> Rows:
    """Share of a new association that static EWC stores (x: task), and its exponent (x: window's start over M⁰)."""
    for width, (low, high) in product(params.theory.widths, WINDOWS):
        tasks = recall.spaced(max(1, low * width), high * width, POINTS)
        shares: list[float] = []
        for seed in params.seeds:
            draws = generator(seed, "theory", "share", width, low)
            features = theory.draw(len(tasks), params.theory.inputs, width, draws).static(width).features
            metrics = (torch.full_like(features[0], t / width) for t in tasks)
            drawn = [theory.stored_share(x, metric) for x, metric in zip(features, metrics, strict=True)]
            yield from curve("share", "ewc", width, seed, tasks, "share", drawn)
            shares += drawn
        expected = fit_exponent(tasks, [1 / (1 + t / width) for t in tasks])
        yield "share exponent", "ewc", width, "all", low, vars(fit_exponent(tasks * len(params.seeds), shares))
        yield "share exponent", "ewc expected", width, "all", low, vars(expected)


def recalls(params: Params, width: int, seed: int) -> Iterator[tuple[str, Tensor]]:
    """What each method recalls, all of them of the same patterns."""
    tasks, few = params.theory.tasks, params.theory.few_inputs
    widths = theory.whole_widths(width, tasks, params.noracl["gamma"])
    drawn = theory.draw(tasks, params.theory.inputs, widths[-1], generator(seed, "theory", "recall", width))
    static, wide = drawn.static(width), drawn.static(widths[-1])
    cramped = theory.draw(tasks, few, width, generator(seed, "theory", "cramped", width)).static(width)
    yield "gd", recall.recall(static, theory.gradient_descent(static))
    yield "ewc", recall.recall(static, theory.static_ewc(static))
    yield "ewc full Fisher", recall.recall(static, theory.full_fisher_ewc(static, PRIOR))
    yield "ewc final width", recall.recall(wide, theory.static_ewc(wide))
    yield "noracl", recall.recall(drawn, theory.noracl(drawn, widths))
    yield "noracl ε=1", recall.recall(drawn, theory.noracl(drawn, widths, 1.0))
    yield f"ewc d={few}", recall.recall(cramped, theory.static_ewc(cramped))


def recall_rows(params: Params) -> Rows:
    """Recall of all patterns so far (x: tasks), and, pooled over seeds, of the first M⁰/2 (x: age)."""
    tasks = params.theory.tasks
    counts = recall.spaced(4, tasks, POINTS)
    for width in params.theory.widths:
        starts = width // 2
        ages = recall.spaced(1, tasks - starts, POINTS)
        curves: Curves = defaultdict(list)
        aged: dict[str, list[Tensor]] = defaultdict(list)
        for seed in params.seeds:
            for method, recalled in recalls(params, width, seed):
                aged[method].append(torch.stack([recall.at_age(recalled, age, starts) for age in ages]))
                for quantity, measure in MEASURES.items():
                    values = [measure(recall.so_far(recalled, n - 1)) for n in counts]
                    curves[method, quantity].append(values)
                    yield from curve("retention", method, width, seed, counts, quantity, values)
        for method, found in aged.items():
            pooled = torch.cat(found, dim=1)
            for quantity, measure in MEASURES.items():
                yield from age_rows("age", method, width, ages, quantity, [measure(values) for values in pooled])
        steps = {"gd expected": [1.0] * tasks, "ewc expected": [width / (width + t) for t in range(tasks)]}
        for method, a in steps.items():
            moments = recall.expected_recall(a, width)
            values = [moments.signal_to_noise(partial(recall.so_far, task=n - 1)) for n in counts]
            curves[method, "snr"] = [values]
            yield from curve("retention", method, width, "all", counts, "snr", values)
            expected = [moments.signal_to_noise(partial(recall.at_age, age=age, starts=starts)) for age in ages]
            yield from age_rows("age", method, width, ages, "snr", expected)
        yield from retention_summary(width, params.seeds, counts, curves)


def retention_summary(width: int, seeds: tuple[int, ...], counts: list[int], curves: Curves) -> Rows:
    """Where retention falls below a level (x), in t/M⁰, by seed and of the mean; the exponent of EWC's tail."""
    tail = [n for n in counts if n >= 2 * width]
    for (method, quantity), found in curves.items():
        level = LEVELS[quantity]
        mean = torch.tensor(found, dtype=torch.float64).mean(0).tolist()
        by_seed = zip(seeds, found, strict=True) if len(found) > 1 else ()
        for seed, values in (*by_seed, ("all", mean)):
            yield "break", method, width, seed, level, {quantity: recall.falls_below(counts, values, level) / width}
        if method in ("ewc", "ewc expected") and quantity == "snr" and len(tail) >= 5:
            fits = [fit_exponent(tail, values[-len(tail) :]) for values in found]
            fit = mean_fit([one.exponent for one in fits]) if len(fits) >= 4 else fits[0]
            yield "snr exponent", method, width, "all", 2, vars(fit)


def theorem_rows(params: Params) -> Rows:
    """Theorem 1 and corollary 1 against ε (x), the error's exponent, and recall through a pattern's own units."""
    for width in params.theory.widths:
        widths = theory.whole_widths(width, EARLY + 1, params.noracl["gamma"])
        errors: list[float] = []
        for seed in params.seeds:
            draws = generator(seed, "theory", "theorem", width)
            drawn = theory.draw(len(widths), params.theory.inputs, widths[-1], draws)
            for epsilon in params.theory.epsilons:
                found = theory.preservation(drawn, widths, epsilon)
                errors.append(found.old)
                yield "theorem", "noracl", width, seed, epsilon, vars(found)
            final = theory.noracl(drawn, widths)[-1]
            off = (recall.own_units(drawn, final, widths) - 1).abs().max()
            yield "own units", "noracl", width, seed, len(widths), {"error": float(off)}
        middle = torch.tensor(errors, dtype=torch.float64).view(len(params.seeds), -1).log().mean(0).exp()
        least, order = torch.tensor(params.theory.epsilons, dtype=torch.float64).sort()
        yield "theorem exponent", "noracl", width, "all", 0, vars(fit_exponent(least[:5], middle[order][:5]))


def crosstalk_rows(params: Params) -> Rows:
    """Recall of NORACL's first patterns against age (x) with k new units per task, and the age at which SNR < 1."""
    width, ages = params.theory.widths[0], recall.spaced(1, 64, POINTS)
    tasks = STARTS + ages[-1]
    for neurons in params.theory.neurons:
        method = f"noracl k={neurons}"
        widths = [width + neurons * t for t in range(tasks)]
        found = []
        for seed, repeat in product(params.seeds, range(REPEATS)):
            draws = generator(seed, "theory", "crosstalk", neurons, repeat)
            drawn = theory.draw(tasks, params.theory.inputs, widths[-1], draws)
            recalled = recall.recall(drawn, theory.noracl(drawn, widths))
            found.append(torch.stack([recall.at_age(recalled, age, STARTS) for age in ages]))
        measured = [recall.signal_to_noise(values) for values in torch.cat(found, dim=1)]
        noises = [sum(recall.expected_noise(neurons, width, s, age) for s in range(STARTS)) / STARTS for age in ages]
        yield from age_rows("crosstalk", method, width, ages, "snr", measured)
        yield from age_rows("crosstalk", f"{method} expected", width, ages, "snr", [n**-0.5 for n in noises])


def growth_rows(params: Params) -> Rows:
    """Width in each task (x) with fractions of neurons and with whole ones, and EWC's share if Λ were t/M(t)."""
    tasks, gamma = params.theory.tasks, params.noracl["gamma"]
    for width, method in product(params.theory.widths, ("fractional", "whole")):
        rule = theory.whole_widths if method == "whole" else theory.fractional_widths
        widths = rule(width, tasks, gamma)
        for t in (n - 1 for n in recall.spaced(1, tasks, POINTS)):
            yield "growth", method, width, "all", t, {"width": widths[t], "share": 1 / (1 + t / widths[t])}
        yield "growth", method, width, "all", tasks - 1, {"slope": (widths[-1] - widths[0]) / (tasks - 1)}


def gate_rows(params: Params) -> Rows:
    """Share of tasks in which Eq. 5 opens at percentile x, for Fishers averaged (Eq. 1) and summed (appendix A.2.1)."""
    averages = {"averaged": EWCSettings(decay=params.training["ewc"]["decay"]), "summed": None}
    percentiles = sorted({params.noracl["percentile"], 50.0, 75.0, 90.0, 100.0})
    for width, seed in product(params.theory.widths, params.seeds):
        draws = generator(seed, "theory", "gate", width)
        fisher = theory.draw(GATES, params.theory.inputs, width, draws).features.square()
        for (method, average), p in product(averages.items(), percentiles):
            opens = theory.gate_opens(fisher, p, average)
            yield "gate", method, width, seed, p, {"opens": sum(opens) / len(opens)}


PARTS = (share_rows, recall_rows, theorem_rows, crosstalk_rows, growth_rows, gate_rows)


def rows(params: Params, part: Callable[[Params], Rows]) -> list[dict[str, object]]:
    """One part of the results as they are written."""
    return [
        dict(zip(COLUMNS, (*labels, f"{x:.6g}", quantity, f"{value:.6g}"), strict=True))
        for *labels, x, found in part(params)
        for quantity, value in found.items()
    ]


def main(arguments: list[str]) -> None:
    """Stage theory."""
    torch.set_num_threads(1)
    params = load()
    found: list[dict[str, object]] = []
    for step, part in enumerate(PARTS, start=1):
        print(f"theory: {part.__name__.removesuffix('_rows')}, part {step} of {len(PARTS)}", flush=True)
        found += rows(params, part)
    write_csv(RESULTS / "theory" / "theory.csv", found, COLUMNS)
    write_json(RESULTS / "theory" / "provenance.json", [machine()])
    print(f"theory: {len(found)} numbers")
