"""`dvc exp run` in the temporary clone: in a file of its own, so that it runs beside the other end-to-end tests."""

import json

import yaml

from tests.conftest import FEW_FIGURES
from tests.test_end_to_end import READERS, ROTATED, UP_TO_DATE


def test_experiments_run_what_depends_on_a_change_and_show_what_it_did(clone, tmp_path):
    copy = clone.copy(tmp_path / "experiment")
    place = "benchmarks.rotated_mnist"
    changes = (f"{place}.training.ewc.strength=0.00001", f"{place}.start=[[5, 5]]")
    ran = copy.stages_run("dvc", "exp", "run", "page", "-S", changes[0], "-S", changes[1], "-n", "try")
    on_results = {f"figure@{name}" for name in FEW_FIGURES}
    assert ran == ROTATED | on_results | READERS - {"check"} | {"canaries"}
    assert UP_TO_DATE in copy.run("dvc", "repro", "page")
    written = yaml.safe_load((copy.folder / "params.yaml").read_text())["benchmarks"]["rotated_mnist"]
    assert written["training"]["ewc"]["strength"] == "1e-05", "text to PyYAML, a number to DVC and to us"
    changed = json.loads(copy.run("dvc", "metrics", "diff", "--json"))
    keys = " ".join(changed["reports/metrics.json"])
    assert "2L_NORACL.accuracy" in keys
    assert "2L_NORACL.params" in keys
    shown = copy.run("dvc", "exp", "show", "--csv")
    assert "try" in shown
    assert f"{place}.start" in shown
    plots = json.loads(copy.run("dvc", "plots", "diff", "--json", "HEAD"))
    assert "errors" not in plots
    assert len(plots["data"]) == 15
