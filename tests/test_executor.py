import dataclasses
import os
import signal
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import pytest
import torch
import yaml

from pipeline.config import parse
from pipeline.data import pixels
from pipeline.experiments.builder import Builder
from pipeline.experiments.staleness import of_runs
from pipeline.files import write_json
from pipeline.runs import answers, canaries, executor
from pipeline.runs.answers import Answer, Doubt
from pipeline.runs.crews import Processes, workers
from pipeline.runs.executor import RunFailed, Supervisor, run_all
from pipeline.runs.run import compute, compute_together
from pipeline.sections import Compute
from tests.conftest import ROOT, TINY, merge

SUITE = "main/split_mnist-static"
ONE, TWO = Compute(workers=1, scheduler=None), Compute(workers=2, scheduler=None)


@pytest.fixture
def place(tmp_path, monkeypatch, mnist_folder):
    """A project folder with nothing but the data, tiny parameters and the manifest of both."""
    (tmp_path / "data").symlink_to(mnist_folder.parent)
    text = yaml.safe_dump(merge(yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8")), TINY))
    (tmp_path / "params.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    pixels.main(["mnist"])
    return tmp_path


def tiny_runs(**changes):
    params = parse(yaml.safe_dump(merge(yaml.safe_load(Path("params.yaml").read_text(encoding="utf-8")), changes)))
    manifest = pixels.manifest_of("mnist", params)
    return Builder(params, lambda name: manifest).static(SUITE, "split_mnist")


def test_any_number_of_workers_gives_the_same_records(place, monkeypatch):
    runs = tiny_runs(seeds=[0, 1])
    alone = run_all(runs, ONE, "alone")
    together = run_all(runs, TWO, "together", fresh=True)
    assert [r.history for r in alone] == [r.history for r in together]

    def never(runs, on_share=None):
        raise AssertionError("computed again")

    monkeypatch.setattr(answers, "compute_together", never)
    assert [r.history for r in run_all(runs, ONE, "again")] == [r.history for r in alone]


def test_runs_that_differ_in_their_labels_alone_are_computed_once(place, monkeypatch, capsys):
    runs = tiny_runs(networks={"mlp": {"small": [[4, 4]], "same": [[4, 4]], "large": [[6, 6]]}})
    computed = []

    def counted(runs, on_share=None):
        computed.extend(run.method for run in runs)
        return compute_together(runs, on_share)

    monkeypatch.setattr(answers, "compute_together", counted)
    found = {run.method: record for run, record in zip(runs, run_all(runs, ONE, "twins"), strict=True)}
    assert found["small"] == found["same"] != found["large"]
    assert len(computed) == 2
    assert "0 of 3 runs are in the run store .runs, 2 to compute" in capsys.readouterr().out


def test_a_store_that_cannot_be_written_is_noticed_before_anything_is_computed(place, monkeypatch):
    (place / ".runs").write_text("a file where the folder should be", encoding="utf-8")
    computed = []
    monkeypatch.setattr(answers, "compute_together", lambda runs, tell: computed.append(runs))
    with pytest.raises(RunFailed, match=r"nothing was computed, because .runs cannot be written: .*"):
        run_all(tiny_runs()[:1], ONE, "full")
    assert not computed


def test_a_store_that_fills_up_is_explained(place, monkeypatch):
    def full(run, record):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(executor.store, "save", full)
    with pytest.raises(RunFailed, match=r"seed 0 is computed, but cannot be kept in .runs: .*No space left"):
        run_all(tiny_runs()[:1], ONE, "full")


def lie(how):
    """A ``compute_together`` that does its work and then tells something else of every run."""

    def compute_and_lie(runs, tell=None):
        return [lie_about(record) for record in compute_together(runs, tell)]

    def lie_about(record):
        if how == "nothing":
            return None
        if how == "fails":
            return {}["no such key"]
        rows = [list(row) for row in record.history.accuracy]
        rows[-1][0] = {"too good": 7.5, "not a number": float("nan")}.get(how, 0.5)
        history = dataclasses.replace(record.history, accuracy=rows[:-1] if how == "short" else rows)
        return dataclasses.replace(record, history=history)

    return compute_and_lie


LIES = ["nothing", "fails", "too good", "not a number", "short"]


@pytest.mark.parametrize("how", LIES)
def test_what_no_run_can_leave_is_named_and_never_kept(place, monkeypatch, how):
    monkeypatch.setattr(answers, "compute_together", lie(how))
    words = "failed: KeyError: 'no such key'" if how == "fails" else "sent a record that this run cannot have left: "
    with pytest.raises(RunFailed, match=rf"split_mnist 2L \w+ seed 0: this process {words}"):
        run_all(tiny_runs(), ONE, "lies")
    assert not list(place.glob(".runs/*"))


class MadeUpCrew:
    """Workers whose answers a test gives."""

    channel = ""

    def __init__(self, *names):
        self.names, self.reports, self.asked = list(names), {}, []

    def submit(self, job, *given, avoid=()):
        future = Future()
        self.asked.append((future, set(avoid)))
        return future

    def members(self):
        return self.names

    def listen(self):
        pass


@pytest.fixture
def supervised(place):
    """A supervisor of two made-up workers with one run that the first has begun, its crew and its record."""
    run = tiny_runs()[0]
    crew = MadeUpCrew("a", "b")
    supervisor = Supervisor(crew, "title", {run: None})
    supervisor.ask((run,))
    crew.reports[0] = ("a", 0.0)
    return supervisor, crew, compute(run)


def settle(supervisor, crew, attempt, answer):
    future, _ = crew.asked[attempt]
    future.set_exception(answer) if isinstance(answer, Exception) else future.set_result(answer)
    return list(supervisor.answered(future))


def test_a_run_whose_worker_fails_is_given_to_another_once(supervised):
    supervisor, crew, record = supervised
    assert settle(supervisor, crew, 0, Doubt("worker a", "failed: KeyError")) == []
    assert crew.asked[1][1] == {"a"}, "another one"
    ((_, found),) = settle(supervisor, crew, 1, Answer("worker b", [record]))
    assert found == record
    assert not supervisor.attempts


def test_a_run_whose_second_worker_fails_too_is_named_with_both(supervised):
    supervisor, crew, _ = supervised
    settle(supervisor, crew, 0, Answer("worker a", [None]))
    with pytest.raises(RunFailed, match=r"seed 0: worker a sent a record .*; then worker b failed: x; giving up"):
        settle(supervisor, crew, 1, Doubt("worker b", "failed: x"))


def test_a_run_that_takes_ten_times_its_estimate_is_given_to_another_and_the_first_result_counts(
    supervised, monkeypatch
):
    supervisor, crew, record = supervised
    (run,) = supervisor.expected
    monkeypatch.setattr(executor, "SOONEST", 0.0)
    supervisor.look_at_the_clock(9 * run.cost)
    assert len(crew.asked) == 1
    supervisor.look_at_the_clock(2 * run.cost)
    assert [avoid for _, avoid in crew.asked] == [set(), {"a"}]
    assert settle(supervisor, crew, 0, Answer("worker a", [record])) == [(run, record)], "slow, but first"
    assert crew.asked[1][0].cancelled()
    assert not supervisor.attempts


def test_a_run_on_which_two_workers_hang_is_named(supervised, monkeypatch):
    supervisor, crew, _ = supervised
    (run,) = supervisor.expected
    monkeypatch.setattr(executor, "SOONEST", 0.0)
    supervisor.look_at_the_clock(11 * run.cost)
    crew.reports[1] = ("b", 0.0)
    with pytest.raises(RunFailed, match=r"seed 0: a has not finished after \d+ s; then b has not finished"):
        supervisor.look_at_the_clock(11 * run.cost)


def test_a_slow_machine_makes_estimates_longer_and_a_waiting_run_is_not_overdue(supervised, monkeypatch):
    supervisor, crew, _ = supervised
    (run,) = supervisor.expected
    monkeypatch.setattr(executor, "SOONEST", 0.0)
    supervisor.pace += [20.0, 20.0, 20.0]
    supervisor.look_at_the_clock(199 * run.cost)
    assert len(crew.asked) == 1
    crew.names = ["a"]  # it is busy, so a second run waits for it
    supervisor.pace, (waiting, *_) = [1.0], list(supervisor.attempts.values())
    waiting.seconds = 0.0
    supervisor.ask((run,))
    for _ in range(20):
        supervisor.look_at_the_clock(0.4 * run.cost)
    assert len(crew.asked) == 2


def test_what_waits_behind_a_worker_that_hangs_is_given_to_another(supervised, monkeypatch):
    supervisor, crew, record = supervised
    (run,) = supervisor.expected
    monkeypatch.setattr(executor, "SOONEST", 0.0)
    other = dataclasses.replace(run, seed=9)
    supervisor.expected[other] = None
    supervisor.ask((other,))  # the second worker is idle and does not begin it: it waits behind the first run
    for _ in range(2):
        supervisor.look_at_the_clock(6 * run.cost)
    assert len(crew.asked) == 3, "the run that hangs goes to another worker, and the other one is waited for"
    settle(supervisor, crew, 2, Answer("worker b", [record]))
    supervisor.pace.clear()
    for _ in range(2):
        supervisor.look_at_the_clock(6 * run.cost)
    assert len(crew.asked) == 4
    assert crew.asked[3][1] == {"a"}


def test_nobody_is_overdue_while_a_cluster_has_no_workers(supervised):
    supervisor, crew, _ = supervised
    crew.names = []
    supervisor.look_at_the_clock(1e9)
    assert len(crew.asked) == 1


def test_a_process_that_hangs_is_not_waited_for(place, monkeypatch):
    """Of two worker processes one stops for ever in the middle of a run; the other does all the work."""
    stopped = []

    def submit(crew, *given, **options):
        if not watchers:
            watchers.append(threading.Thread(target=stop_one, args=(crew,), daemon=True))
            watchers[0].start()
        return original(crew, *given, **options)

    def stop_one(crew):
        while not stopped:
            time.sleep(0.005)
            crew.listen()
            for worker, share in list(crew.reports.values()):
                if share < 0.5 and not stopped:  # near its end it may hold a lock
                    stopped.append(int(worker.split()[1]))
                    os.kill(stopped[0], signal.SIGSTOP)

    watchers, original = [], Processes.submit
    monkeypatch.setattr(Processes, "submit", submit)
    monkeypatch.setattr(executor, "SOONEST", 10.0)  # long enough for a busy machine to start a worker
    slow = tiny_runs(seeds=[0, 1], training={"optimisation": {"epochs_later": 800}})
    expected = [record.history for record in run_all(slow, ONE, "alone", fresh=True)]
    assert [record.history for record in run_all(slow, TWO, "hangs")] == expected
    assert stopped


def test_what_torch_refuses_is_named(place, monkeypatch):
    def fail(runs, on_share=None):
        return [torch.linalg.LinAlgError("the algorithm failed to converge") for _ in runs]

    monkeypatch.setattr(answers, "compute_together", fail)
    with pytest.raises(RunFailed, match=r"split_mnist 2L \w+ seed 0: the algorithm failed to converge"):
        run_all(tiny_runs(), ONE, "wild")


def test_a_diverging_run_is_named_and_leaves_no_result(place):
    runs = tiny_runs(training={"optimisation": {"rate_first": 1e30, "clip": None}})
    for settings in (ONE, TWO):
        with pytest.raises(
            RunFailed, match=r"split_mnist 2L \w+ seed 0: the loss became non-finite at task 1, after its last step"
        ):
            run_all(runs, settings, "wild")
    assert not list(place.glob(".runs/*"))


def test_nothing_is_computed_or_found_while_the_code_gives_other_numbers_than_the_canaries(place):
    runs = tiny_runs()
    known = of_runs(runs)
    write_json(canaries.file_of(SUITE), known)
    run_all(runs, ONE, "same")
    ((route, numbers),) = known.items()
    first, *others = numbers["numbers"]
    write_json(canaries.file_of(SUITE), {route: {**numbers, "numbers": [1.001 * first, *others]}})
    for fresh in (False, True):
        with pytest.raises(RunFailed, match=r"no longer gives the numbers in .*: run `dvc repro canaries`"):
            run_all(runs, ONE, "changed", fresh)


def test_data_that_cannot_make_a_stream_is_named(place):
    """The first 10 test images hold no 3, 6 or 8."""
    (run, *_) = tiny_runs(
        data={"mnist": {"limit": 60}}, benchmarks={"split_mnist": {"stream": {"pairs": [[0, 1], [3, 8]]}}}
    )
    with pytest.raises(RunFailed, match=r"split_mnist 2L \w+ seed 0: tasks\[\d\].x_test is empty"):
        run_all([run], ONE, "few")


def test_a_cluster_without_its_package_is_explained(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(RunFailed, match=r"compute.scheduler in params.yaml needs `pip install distributed`"):
        run_all(tiny_runs(), Compute(workers=1, scheduler="tcp://127.0.0.1:8786"), "far")


def test_workers_are_one_per_core_or_as_asked():
    assert workers(TWO) == 2
    assert workers(Compute(workers="auto", scheduler=None)) == len(os.sched_getaffinity(0))


def test_what_is_wrong_in_a_group_leaves_the_rest_alone(supervised):
    supervisor, crew, record = supervised
    (run,) = supervisor.expected
    other = dataclasses.replace(run, method="other")
    supervisor.expected[other] = None
    supervisor.ask((run, other))
    crew.reports[1] = ("a", 0.0)
    assert settle(supervisor, crew, 1, Answer("worker a", [record, None])) == [(run, record)], "what is right counts"
    assert len(crew.asked) == 3
    assert crew.asked[2][1] == {"a"}, "the rest goes to another worker"
    (again,) = [attempt.group for attempt in supervisor.attempts.values() if attempt.slot == 2]
    assert again == (other,)
    failed = Answer("worker b", [torch.linalg.LinAlgError("no")])
    with pytest.raises(RunFailed, match=r"other seed 0: no"):
        settle(supervisor, crew, 2, failed)


def test_an_answer_for_another_number_of_runs_is_doubted(supervised):
    supervisor, crew, record = supervised
    assert settle(supervisor, crew, 0, Answer("worker a", [record, record])) == []
    with pytest.raises(RunFailed, match="worker a did not answer with 1 results; then worker b"):
        settle(supervisor, crew, 1, Answer("worker b", []))


def test_a_member_that_diverges_is_named_and_the_rest_of_its_group_is_kept(place):
    runs = tiny_runs()
    (small, *others) = runs
    wild = dataclasses.replace(small.settings.optimisation, rate_first=1e30, clip=None)
    runs = [dataclasses.replace(small, settings=dataclasses.replace(small.settings, optimisation=wild)), *others]
    with pytest.raises(RunFailed, match=rf"{small.method} seed 0: the loss became non-finite"):
        run_all(runs, ONE, "wild")
    assert len(list(place.glob(".runs/*.json"))) == len(others) > 0
