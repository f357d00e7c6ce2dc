"""The rooms of the house: every path that the pipeline reads or writes, relative to the project's root."""

from pathlib import Path

PARAMS = Path("params.yaml")
MNIST = Path("data/mnist")
CIFAR10 = Path("data/cifar10")
RESNET18 = Path("data/resnet18")
FEATURES = Path("data/features")  # by image size: what ResNet18 makes of CIFAR-10
MANIFESTS = Path("reports/features")  # by image size: what decided those features
RUNS = Path(".runs")  # the run store, git-ignored: finished runs by the hash of what decides them
PAPER = Path("reports/paper")
RESULTS = Path("reports/results")
TIMING = Path("reports/timing")
TABLES = Path("reports/tables")
PLOTS = Path("reports/plots")  # means over seeds, for `dvc plots`
CLAIMS_LIST = Path("reports/claims.yaml")  # the paper's claims and how each is tested
CLAIMS = Path("reports/claims.csv")
SENTENCES = Path("reports/sentences.yaml")  # what a paper would say of each choice of the reconstruction study
FIGURES = Path("reports/figures")
NOTEBOOKS = Path("reports/notebooks")
REGISTRY = Path("reports/figures.yaml")  # every figure with its caption and what it reads
DIFFERENCES = Path("reports/DIFFERENCES.md")
RECONSTRUCTION = Path("reports/RECONSTRUCTION.md")
SCALING = Path("reports/SCALING.md")
PAGE = Path("reports/index.html")
METRICS = Path("reports/metrics.json")
CHECK = Path("reports/check.json")
README = Path("README.md")
