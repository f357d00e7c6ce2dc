from dataclasses import replace

import pytest
import torch

from noracl import EWCSettings, History, NonFiniteLoss, OptimisationSettings, Settings, Stream, Task, learn, permuted
from noracl.method.bounds import joint, naive, separate
from tests.helpers import toy_stream, toy_task

BOUNDS = [naive, joint, separate]
FAST = OptimisationSettings(batch_size=16, rate_later=0.1, epochs_first=10, epochs_later=10)
SMALL = Settings(hidden=(16,), optimisation=FAST, ewc=EWCSettings(strength=500.0))
PERMUTED = permuted(toy_task(0, rows=300), 3, 3, seed=1)
UNEQUAL = Stream([toy_task(0, rows=64), toy_task(1, rows=90, columns=torch.arange(9).flip(0))], 3, scale=0.5, shift=0.1)


def seen(task, x, stream):
    """What the network sees of a task."""
    return (x if task.columns is None else x[:, task.columns]) * stream.scale + stream.shift


def accuracy(network, task, stream):
    return float((network.predict(seen(task, task.x_test, stream)) == task.y_test).double().mean())


def by_hand(stream, tasks, settings, seed):
    """The network of a stream whose only task holds the data of all of these, already scaled."""
    x = torch.cat([seen(task, task.x, stream) for task in tasks])
    y = torch.cat([task.y for task in tasks])
    plain = replace(settings, growth=replace(settings.growth, trigger="none"))
    return learn(Stream([Task(x, y, x[:9], y[:9])], stream.classes), plain, seed).network


def test_a_stream_that_is_forgotten_is_ordered_by_its_bounds():
    found = {one.__name__: one(PERMUTED, SMALL).history.average_accuracy() for one in (learn, *BOUNDS)}
    assert found["naive"] < found["learn"] - 0.02
    assert found["learn"] < found["joint"] + 0.02
    assert found["joint"] <= found["separate"] == 1
    assert naive(PERMUTED, SMALL).history.forgetting() > 0.1
    assert separate(PERMUTED, SMALL).history.forgetting() == 0


def test_naive_is_a_static_network_without_a_penalty():
    found = naive(PERMUTED, SMALL, seed=3)
    off = replace(SMALL, growth=replace(SMALL.growth, trigger="none"), ewc=EWCSettings(strength=0.0))
    same = learn(PERMUTED, off, seed=3)
    assert torch.equal(found.network.theta, same.network.theta)
    assert found.history.accuracy == same.history.accuracy


@pytest.mark.parametrize("stream", [PERMUTED, UNEQUAL])
def test_joint_is_what_the_union_teaches(stream):
    found = joint(stream, SMALL, seed=2)
    networks = [by_hand(stream, stream.tasks[:t], SMALL, 2) for t in range(1, len(stream.tasks) + 1)]
    expected = [[accuracy(net, task, stream) for task in stream.tasks[: t + 1]] for t, net in enumerate(networks)]
    assert found.history.accuracy == expected
    torch.testing.assert_close(found.network.theta, networks[-1].theta)
    later = [accuracy(net, task, stream) for net, task in zip(networks, stream.tasks[1:], strict=False)]
    assert found.history.zero_shot == [found.history.untrained[0], *later]


def test_tasks_of_bytes_and_of_numbers_can_be_joined():
    small = replace(SMALL, optimisation=replace(FAST, epochs_first=2, rate_first=0.01))
    whole = [toy_task(seed) for seed in range(2)]
    parts = [[(10 * part).clamp(0, 255).to(torch.uint8) for part in (task.x, task.x_test)] for task in whole]
    as_bytes = [Task(x, t.y, x_test, t.y_test) for t, (x, x_test) in zip(whole, parts, strict=True)]
    as_numbers = Task(parts[1][0].float(), whole[1].y, parts[1][1].float(), whole[1].y_test)
    both, mixed = (Stream([as_bytes[0], one], 3, scale=0.1) for one in (as_bytes[1], as_numbers))
    assert joint(both, small).history == joint(mixed, small).history


@pytest.mark.parametrize("stream", [PERMUTED, UNEQUAL])
def test_separate_is_one_network_per_task(stream):
    found = separate(stream, SMALL, seed=2)
    history, tasks = found.history, len(stream.tasks)
    networks = [by_hand(stream, [task], SMALL, 2) for task in stream.tasks]
    assert history.accuracy[-1] == [accuracy(*both, stream) for both in zip(networks, stream.tasks, strict=True)]
    assert [row[0] for row in history.accuracy] == [history.accuracy[0][0]] * tasks
    one = networks[0].parameters
    assert history.parameters == history.plastic == [one * t for t in range(1, tasks + 1)]
    assert history.widths == [(16 * t,) for t in range(1, tasks + 1)]
    torch.testing.assert_close(found.network.theta, networks[-1].theta)
    assert history.forward_transfer() == 0


@pytest.mark.parametrize("bound", BOUNDS)
def test_histories_have_the_shape_of_any_other(bound):
    outcome, other = bound(UNEQUAL, SMALL), learn(UNEQUAL, SMALL)
    found, shape = outcome.history.to_dict(), other.history.to_dict()
    assert found.keys() == shape.keys()
    assert found["growth"] == found["signals"] == []
    for name in set(found) - {"growth", "signals"}:
        assert len(found[name]) == len(shape[name]) == 2, name
    assert [len(row) for row in found["accuracy"]] == [1, 2]
    assert found["locked"] == [(0.0,), (0.0,)]
    assert found["untrained"] == shape["untrained"], "all networks start where learn starts"
    assert History.from_dict(found).first(1).average_accuracy() == found["accuracy"][0][0]
    assert -1 <= outcome.history.backward_transfer() <= 1
    assert -1 <= outcome.history.forward_transfer() <= 1
    assert outcome.seconds.keys() == other.seconds.keys()
    assert min(outcome.seconds["sgd"], outcome.seconds["evaluation"]) > 0
    assert outcome.network.predict(UNEQUAL.tasks[0].x_test).shape == (60,)


@pytest.mark.parametrize("bound", BOUNDS)
def test_the_seed_decides(bound):
    first, again, other = (bound(UNEQUAL, SMALL, seed).network.theta for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("bound", BOUNDS)
def test_growth_and_regulariser_of_the_settings_do_not_matter(bound):
    other = replace(SMALL, regulariser="l2", growth=replace(SMALL.growth, trigger="fixed"))
    assert bound(UNEQUAL, other).history == bound(UNEQUAL, SMALL).history


@pytest.mark.parametrize("bound", BOUNDS)
def test_bad_input_is_named(bound):
    with pytest.raises(ValueError, match="stream must be of type Stream, got 3"):
        bound(3, SMALL)
    with pytest.raises(ValueError, match="settings must be of type Settings, got None"):
        bound(UNEQUAL, None)
    with pytest.raises(ValueError, match="seed must be a whole number"):
        bound(UNEQUAL, SMALL, 1.5)


@pytest.mark.filterwarnings("ignore::noracl.TaskWarning")
@pytest.mark.parametrize(("bound", "named"), [(joint, "joint training on 2 tasks"), (separate, "for task 2 alone")])
def test_divergence_names_the_training(bound, named):
    first, second = UNEQUAL.tasks
    stream = Stream([first, replace(second, x=1e30 * second.x)], 3)
    with pytest.raises(NonFiniteLoss, match=f"{named}: the loss became non-finite at task 1, epoch 1"):
        bound(stream, replace(SMALL, optimisation=replace(FAST, clip=None)))


def test_one_task_and_two_layers_will_do():
    histories = [bound(toy_stream(1), replace(SMALL, hidden=(5, 4))).history for bound in BOUNDS]
    assert histories[0] == histories[1] == histories[2]
    assert histories[0].widths == [(5, 4)]
