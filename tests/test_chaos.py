"""`make chaos` in short: kinds of faults once or twice, on one suite; tests/test_cluster.py has its bad workers."""

import time

from tests.chaos import SUITES, Chaos


def test_faults_lose_nothing_and_repeat_nothing(tmp_path, mnist_folder):
    chaos = Chaos.prepare(tmp_path, seed=1, seeds=8, limit=20000, suites=SUITES[:1])
    plan = [
        lambda: chaos.kill_worker(times=1),
        chaos.damage_store,
        chaos.settle,
        lambda: chaos.kill_parent(workers=2),
        chaos.terminate,
        chaos.terminate_dvc,
        chaos.kill_in_a_write,
        chaos.fail_writes,
        chaos.damage_download,
        chaos.damage_features,
        chaos.dripping_server,
    ]
    assert chaos.run(plan, time.monotonic() + 300, share=1), chaos.table()
    assert len(chaos.tallies) == 10
    assert all(tally.tries for tally in chaos.tallies.values()), chaos.table()
