"""The one entry point: `python -m pipeline STAGE …`."""

from pipeline import interrupts

if __name__ == "__main__":
    interrupts.while_loading()

import importlib
import io
import sys

from pipeline.files import StageError
from pipeline.plain_yaml import ParamsError

#: Every stage and tool: the module that has its ``main``, and what it makes.
STAGES = {
    "download": ("data.download", "data/DATASET: mnist, fashion_mnist, cifar10 or resnet18, from any source"),
    "pixels": ("data.pixels", "reports/data/DATASET.json: what decides mnist or fashion_mnist as training sees it"),
    "features": ("experiments.features", "data/features/NAME and their manifest: CIFAR-10 through a frozen ResNet18"),
    "canaries": ("experiments.staleness", "reports/canaries: numbers of tiny runs, which tell what is stale"),
    "golden": ("experiments.golden", "reports/golden.json: the beginnings of the golden runs, which any CPU repeats"),
    "train": ("experiments.train", "reports/results/SUITE: all runs of a suite, such as main/split_mnist-noracl"),
    "metrics": ("experiments.metrics", "reports/metrics and reports/plots: means over seeds, from reports/results"),
    "cost": ("experiments.cost", "reports/timing/cost: seconds per component (section A.7)"),
    "theory": ("experiments.theory", "reports/results/theory: random pattern association (section 4)"),
    "transfer": ("experiments.transfer", "reports/results/transfer: the theory in ReLU networks (section A.2.2)"),
    "official": ("data.official", "reports/paper/released.csv: the authors' released results; needs the network"),
    "tables": (
        "report.tables",
        "reports/tables: ours beside the paper's; claims under every reading; README.md's tables",
    ),
    "claims": ("evidence.claims", "reports/claims.csv: a verdict on every claim of the paper"),
    "figure": ("report.figures", "reports/figures/NAME: one figure, by its notebook"),
    "page": ("report.page", "reports/index.html: everything on one page"),
    "check": ("check", "nothing: fails unless every reported number is what the code computes"),
    "verify": ("verify", "nothing: recomputes runs of your choice, or drawn at random, and compares them"),
    "verdicts": ("report.verdict_counts", "nothing: prints how many numbers and claims hold"),
    "bench": ("tools.bench", "nothing: prints the speed of training as ratios (`make bench`)"),
    "portability": ("tools.portability", "reports/portability.csv: golden runs with other instructions"),
    "share": ("tools.share", "nothing new: sends finished runs and features to a DVC remote, or fetches them"),
    "reference": ("tools.reference", "docs/library/reference.md: the library's docstrings on one page"),
}
HELP = "usage: python -m pipeline STAGE [-h] …\n\nThe stages, and what each makes:\n" + "\n".join(
    f"  {name:12} {words}" for name, (_, words) in STAGES.items()
)


def main(arguments: list[str]) -> None:
    """Run a stage."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(HELP)
    elif arguments[0] not in STAGES:
        sys.exit(f"there is no stage {arguments[0]!r}\n\n{HELP}")
    else:
        stage = importlib.import_module(f"pipeline.{STAGES[arguments[0]][0]}")
        interrupts.while_running(arguments[0])
        try:
            stage.main(arguments[1:])
        except ParamsError as error:
            sys.exit(f"{error}\nNothing was run. Mend params.yaml and start again.")
        except (StageError, OSError) as error:
            sys.exit(f"{' '.join(arguments)}: {error}")
        except KeyboardInterrupt:
            sys.exit(
                f"\n{' '.join(arguments)}: interrupted. What is finished is kept; start again to go on."
                + interrupts.way_back()
            )


if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows ASCII alone shows ? for ×
    main(sys.argv[1:])
