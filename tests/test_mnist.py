"""Short runs on real MNIST."""

import dataclasses
import shutil
from pathlib import Path

import pytest
import torch
import yaml

from noracl import learn
from pipeline.config import load
from pipeline.data.download import MNIST_FILES
from pipeline.data.manifests import Pixels, read_manifest
from pipeline.data.mnist import main, mnist
from pipeline.data.streams import build_stream
from pipeline.data.verified import Damaged
from pipeline.files import json_digest

PIXELS = Pixels(data="", limit=None, mean=0.1307, deviation=0.3081)


def test_files_are_what_they_should_be(mnist_folder):
    data = mnist(None, mnist_folder)
    assert data.x.shape == (60000, 784)
    assert data.x_test.shape == (10000, 784)
    assert data.y[:5].tolist() == [5, 0, 4, 1, 9]
    assert abs(data.x.double().mean().item() / 255 - 0.1307) < 1e-4
    assert abs(data.x.double().std().item() / 255 - 0.3081) < 1e-4
    few = mnist(600, mnist_folder)
    assert (len(few.x), len(few.x_test)) == (600, 100)
    assert torch.equal(few.x, data.x[:600])


@pytest.mark.parametrize("name", MNIST_FILES)
def test_missing_and_damaged_files_are_named_with_the_command_that_makes_them(tmp_path, mnist_folder, name):
    """One bit in the last byte is enough, and so is a byte too few."""
    for other in MNIST_FILES:
        (tmp_path / other).symlink_to(mnist_folder / other)
    (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"lacks {name}: run `dvc repro download@mnist`$"):
        mnist(None, tmp_path)
    content = (mnist_folder / name).read_bytes()
    for damaged in (content[:-1] + bytes([content[-1] ^ 1]), content[:-1], b""):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(Damaged, match=f"{name} is damaged: run `dvc repro download@mnist` after deleting it"):
            mnist(None, tmp_path)
    (tmp_path / name).write_bytes(content)
    assert torch.equal(mnist(None, tmp_path).x, mnist(None, mnist_folder).x)


def test_stage_pixels_writes_what_decides_the_inputs(tmp_path, monkeypatch):
    shutil.copy("params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"mnist\.json is missing: run `dvc repro pixels`"):
        read_manifest("mnist")
    main([])
    stored = yaml.safe_load(Path("params.yaml").read_text())["data"]["mnist"]
    assert read_manifest("mnist") == Pixels(data=json_digest(MNIST_FILES), **stored)


def test_streams_show_scaled_pixels(mnist_folder):
    """Mean 0 and deviation 1 of what a network sees."""
    params = load()
    few = PIXELS.model_copy(update={"limit": 600})
    for name in ("permuted_mnist", "rotated_mnist", "split_mnist"):
        chosen = params.benchmarks[name]
        stream = build_stream(few, chosen.stream, chosen.outputs, 1)
        assert (len(stream.tasks), stream.classes) == (chosen.stream.tasks, chosen.outputs)
        assert build_stream(few, chosen.stream, chosen.outputs, 1) is stream, "kept"
        assert (build_stream(few, chosen.stream, chosen.outputs, 2) is stream) == (name != "permuted_mnist")
    seen = mnist(None, mnist_folder).x[:20000].float() * stream.scale + stream.shift
    assert abs(seen.mean()) < 0.01
    assert abs(seen.std() - 1) < 0.01


def test_two_tasks_are_learnt_and_growth_helps(mnist_folder):
    """Few epochs on the second: over 95 % on the first alone, over 80 % on average, more with growth than without."""
    params = load()
    stream_section = params.benchmarks["permuted_mnist"].stream.model_copy(update={"tasks": 2})
    stream = build_stream(PIXELS, stream_section, 10, 0)
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
