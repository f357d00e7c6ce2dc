"""Short runs on real MNIST."""

import dataclasses

import pytest
import torch

from noracl import learn
from pipeline.params import load
from pipeline.streams import build_stream, drawn_pairs, mnist


def test_files_are_what_they_should_be(mnist_folder):
    data = mnist(None, mnist_folder)
    assert data.x.shape == (60000, 784)
    assert data.x_test.shape == (10000, 784)
    assert data.y[:5].tolist() == [5, 0, 4, 1, 9]
    assert abs(data.x.double().mean().item() / 255 - 0.1307) < 1e-4
    assert abs(data.x.double().std().item() / 255 - 0.3081) < 1e-4
    few = mnist(600, mnist_folder)
    assert (len(few.x), len(few.x_test)) == (600, 100)
    fewer = mnist(600, mnist_folder, held_out=100)
    assert (len(fewer.x), len(fewer.x_test)) == (500, 100)
    assert torch.equal(fewer.x, few.x[:500])


@pytest.mark.parametrize("drawn", [(), ("order",), ("labels",), ("digits",), ("digits", "labels")])
def test_what_a_seed_draws_of_a_split_stream(drawn):
    section = load().benchmarks["split_mnist"].stream.model_copy(update={"drawn": drawn})
    streams = [drawn_pairs(section, seed) for seed in range(20)]
    given = set(section.pairs)
    assert drawn_pairs(section, 3) == streams[3]
    assert all(sorted(d for pair in pairs for d in pair) == list(range(10)) for pairs in streams)
    assert any(pairs != list(section.pairs) for pairs in streams) == bool(drawn)
    if drawn == ("order",):
        assert all(set(pairs) == given for pairs in streams)
    if drawn == ("labels",):
        assert all([tuple(sorted(pair)) for pair in pairs] == list(section.pairs) for pairs in streams)
    if "labels" not in drawn:
        assert all(a < b for pairs in streams for a, b in pairs)


def test_two_tasks_are_learnt_and_growth_helps(mnist_folder):
    """Few epochs on the second: over 95 % on the first alone, over 80 % on average, more with growth than without."""
    params = load()
    stream_section = params.benchmarks["permuted_mnist"].stream.model_copy(update={"tasks": 2})
    stream = build_stream(stream_section, 10, params.inputs, None, 0)
    settings = params.settings("permuted_mnist", (32, 32))
    settings = dataclasses.replace(
        settings, optimisation=dataclasses.replace(settings.optimisation, epochs_first=10, epochs_later=6)
    )
    static = dataclasses.replace(settings, growth=dataclasses.replace(settings.growth, trigger="none"))
    grown, fixed = learn(stream, settings, 0).history, learn(stream, static, 0).history
    assert fixed.accuracy[0][0] > 0.95
    assert fixed.average_accuracy() > 0.7
    assert grown.average_accuracy() > max(0.8, fixed.average_accuracy())
    assert grown.widths[-1][0] > 32
    assert grown.widths[-1][1] == 32
