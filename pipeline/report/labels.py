"""What the report calls things: benchmarks, and tables with their place in the paper."""

from pipeline.config import Params
from pipeline.experiments.beyond import FASHION
from pipeline.sections import PIXELS

#: Title and place in the paper of each table.
TABLES = {
    "main": ("Table 1: NORACL and static networks", "section 5.1"),
    "cifar10": ("Table 2: Split CIFAR-10 on frozen features", "section 5.2"),
    "cifar10_128": ("Split CIFAR-10 at 128 pixels", "not in the paper"),
    "cifar10_sizes": ("Split CIFAR-10: image sizes that were compared", "not in the paper"),
    "ablations": ("Ablations: initialisation and growth triggers", "section A.6"),
    "sensitivity": ("Sensitivity to the thresholds", "section A.8"),
    "strengths": ("How the strength of each regulariser was chosen, on held-out training images", "not in the paper"),
    "regularisers": ("NORACL and static networks under other regularisers", "section 3 asserts it"),
    "oracle": ("Large static networks on the short stress test", "section 5.4 asserts it"),
    "bounds": ("Bounds: no protection, all data at once, one network per task", "not in the paper"),
    "controls": ("Equal growth at other times, in other layers, at once, or with other weights", "not in the paper"),
    "upkeep_strengths": ("How the strength of each way to stay plastic was chosen", "not in the paper"),
    "upkeep": ("Other ways to stay plastic on the long stress test", "section 5.4 claims it of growth"),
    "fashion": ("Fashion-MNIST in the streams of Table 1", "not in the paper"),
    "cost": ("Computational cost", "section A.7; wall-clock, of this machine"),
    "theory": ("Random pattern association", "section 4 and A.2.1"),
    "hours": ("How long each table takes", "not in the paper; by calculation from measured seconds"),
}


#: Words in the name of a reading that are not written in small letters.
SPELLED = {"jax": "JAX", "fisher": "Fisher"}


def reading_title(reading: str) -> str:
    """What people call a reading of the paper."""
    return " ".join(SPELLED.get(word, word) for word in reading.split("_"))


def benchmark_title(benchmark: str, params: Params) -> str:
    """A benchmark for people; an image size that was compared counts as one, and so does Fashion-MNIST for MNIST."""
    image = params.encoder.images.get(benchmark.removeprefix("size_"))
    if image and benchmark.startswith("size_"):
        return f"{image.size}×{image.size} pixels"
    if benchmark in params.benchmarks:
        return params.benchmarks[benchmark].title
    same = params.benchmarks.get(benchmark.removeprefix(FASHION))
    return same.title.replace("MNIST", "Fashion-MNIST") if same else benchmark


def table_title(table: str) -> tuple[str, str]:
    """A table's title and its place in the paper."""
    if table.startswith("stress"):
        return f"Stress test: {table.removeprefix('stress')} permuted tasks", "sections 5.4 and A.5"
    return TABLES.get(table, (table, "not in the paper"))


def on_features(benchmark: str, params: Params) -> bool:
    """Whether networks see features of images there, and not their pixels."""
    return benchmark.startswith("size_") or (
        benchmark in params.benchmarks and params.benchmarks[benchmark].data not in PIXELS
    )


def provenance_line(machines: list[dict[str, str]], features: bool = True) -> str:
    """Which machines and versions made the numbers and, if there are numbers on features, which weights made these."""
    known = ("cpu", "instructions", "torch", "python")
    made = [f"{one['cpu']} ({one['instructions']}), torch {one['torch']}, Python {one['python']}" for one in machines]
    encoders = [f"{name} {one[name]}" for one in machines for name in one if features and name not in known]
    more = f" Features by {'; '.join(dict.fromkeys(encoders))}." if encoders else ""
    return f"Computed on {'; '.join(dict.fromkeys(made))}.{more}"
