"""Every path that the pipeline reads or writes, relative to the project's root."""

from pathlib import Path

PARAMS = Path("params.yaml")
DATA = Path("data")  # by data set: what was downloaded
CIFAR10 = Path("data/cifar10")
RESNET18 = Path("data/resnet18")
FEATURES = Path("data/features")  # by data set: what ResNet18 makes of CIFAR-10
RUNS = Path(".runs")  # the run store, git-ignored: finished runs by the hash of what decides them
MANIFESTS = Path("reports/data")  # by data set: what decides the inputs of training
CANARIES = Path("reports/canaries")  # by suite: the numbers that tiny runs give
GOLDEN = Path("reports/golden.json")  # the beginnings of the golden runs
PAPER = Path("reports/paper")
RESULTS = Path("reports/results")  # by suite: runs.csv, signals.csv, provenance.json
TIMING = Path("reports/timing")  # seconds, by suite; the table of costs and the table of hours
TABLES = Path("reports/tables")
VERDICTS = TABLES / "verdicts.json"  # how many cells of each table match the paper
PLOTS = Path("reports/plots")  # by suite: means over seeds after each task, for `dvc plots`
CLAIMS_LIST = Path("reports/claims.yaml")  # the paper's claims and how each is tested
CLAIMS = Path("reports/claims.csv")
QUESTIONS_LIST = Path("reports/questions.yaml")  # what the paper does not show, in the same form
QUESTIONS = Path("reports/questions.csv")
FIGURES = Path("reports/figures")
NOTEBOOKS = Path("reports/notebooks")
REGISTRY = Path("reports/figures.yaml")  # every figure with its caption and what it reads
DIFFERENCES = Path("reports/DIFFERENCES.md")
RECONSTRUCTION = Path("reports/RECONSTRUCTION.md")
PORTABILITY = Path("reports/portability.csv")
PAGE = Path("reports/index.html")
METRICS = Path("reports/metrics")  # by suite: means over seeds, for `dvc metrics` and `dvc exp show`
README = Path("README.md")
