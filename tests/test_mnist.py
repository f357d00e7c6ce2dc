"""MNIST and Fashion-MNIST as training sees them, and short runs on real MNIST."""

import dataclasses
import hashlib
import shutil
from pathlib import Path

import pytest
import torch
import yaml

from noracl import learn
from pipeline.config import load
from pipeline.data import pixels
from pipeline.data.manifests import Pixels, read_manifest
from pipeline.data.pixels import FILES, images, main, manifest_of
from pipeline.data.streams import build_stream
from pipeline.data.verified import Damaged
from pipeline.experiments import train
from pipeline.files import json_digest, write_json
from pipeline.runs.executor import RunFailed
from pipeline.sections import PIXELS
from tests.conftest import ROOT

MNIST = manifest_of("mnist", load()).model_copy(update={"limit": None})
DIGITS = bytes(range(10))


def test_files_are_what_they_should_be(mnist_folder):
    data = images("mnist", None, mnist_folder.parent)
    assert data.x.shape == (60000, 784)
    assert data.x_test.shape == (10000, 784)
    assert data.y[:5].tolist() == [5, 0, 4, 1, 9]
    assert abs(data.x.double().mean().item() / 255 - 0.1307) < 1e-4
    assert abs(data.x.double().std().item() / 255 - 0.3081) < 1e-4
    few = images("mnist", 600, mnist_folder.parent)
    assert (len(few.x), len(few.x_test)) == (600, 100)
    assert torch.equal(few.x, data.x[:600])


@pytest.mark.parametrize("name", FILES["mnist"])
def test_missing_and_damaged_files_are_named_with_the_command_that_makes_them(tmp_path, mnist_folder, name):
    """One bit in the last byte is enough, and so is a byte too few."""
    (tmp_path / "mnist").mkdir()
    for other in FILES["mnist"]:
        (tmp_path / "mnist" / other).symlink_to(mnist_folder / other)
    path = tmp_path / "mnist" / name
    path.unlink()
    with pytest.raises(FileNotFoundError, match=f"lacks {name}: run `dvc repro download@mnist`$"):
        images("mnist", None, tmp_path)
    content = (mnist_folder / name).read_bytes()
    for damaged in (content[:-1] + bytes([content[-1] ^ 1]), content[:-1], b""):
        path.write_bytes(damaged)
        with pytest.raises(Damaged, match=f"{name} is damaged: run `dvc repro download@mnist` after deleting it"):
            images("mnist", None, tmp_path)
    path.write_bytes(content)
    assert torch.equal(images("mnist", None, tmp_path).x, images("mnist", None, mnist_folder.parent).x)


@pytest.mark.parametrize("name", PIXELS)
def test_stage_pixels_writes_what_decides_the_inputs(tmp_path, monkeypatch, name):
    committed = Path(f"reports/data/{name}.json").read_bytes()
    shutil.copy("params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=rf"data/{name}\.json is missing: run `dvc repro pixels@{name}`"):
        read_manifest(name)
    main([name])
    stored = yaml.safe_load(Path("params.yaml").read_text(encoding="utf-8"))["data"][name]
    assert read_manifest(name) == Pixels(data=json_digest(FILES[name]), **stored)
    assert Path(f"reports/data/{name}.json").read_bytes() == committed


def test_an_unknown_data_set_is_refused_with_those_that_there_are(capsys):
    with pytest.raises(SystemExit):
        main(["emnist"])
    said = capsys.readouterr().err
    assert all(name in said for name in ("'emnist'", *FILES))
    assert list(FILES) == list(PIXELS), "every data set of pixels in params.yaml has its files"
    with pytest.raises(Damaged, match=r"reports/data has a manifest of unknown files, 'else': run `dvc repro pixels`"):
        build_stream(MNIST.model_copy(update={"data": "else"}), load().benchmarks["split_mnist"].stream, 2, 0)


def test_each_data_set_is_read_from_its_own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = {}
    for name, grey in (("mnist", b"\x01"), ("fashion_mnist", b"\x02")):
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        for file in FILES[name]:
            (folder / file).write_bytes(bytes(16) + grey * 784 * 60 if "images" in file else bytes(8) + DIGITS * 6)
        known[name] = {file: hashlib.md5((folder / file).read_bytes()).hexdigest() for file in FILES[name]}
    monkeypatch.setattr(pixels, "FILES", known)
    params = load(ROOT / "params.yaml")
    for name, grey in (("mnist", 1), ("fashion_mnist", 2)):
        manifest = manifest_of(name, params).model_copy(update={"limit": 59})  # no other test has this one in its cache
        stream = build_stream(manifest, params.benchmarks["split_mnist"].stream, 2, 0)
        assert {int(pixel) for task in stream.tasks for pixel in task.x.unique()} == {grey}
    (tmp_path / "data/fashion_mnist/train-labels-idx1-ubyte").unlink()
    with pytest.raises(FileNotFoundError, match=r"train-labels-idx1-ubyte: run `dvc repro download@fashion_mnist`"):
        pixels.verified_files("fashion_mnist")


@pytest.mark.parametrize(("name", "suite"), [("mnist", "main/split_mnist-static"), ("fashion_mnist", "beyond/fashion")])
def test_a_manifest_that_params_have_left_behind_is_named(tmp_path, monkeypatch, name, suite):
    asked = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    asked["beyond_stress"], asked["beyond"] = {}, {"fashion": {"benchmarks": ["split_mnist"]}}
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text(yaml.safe_dump(asked), encoding="utf-8")
    for one in PIXELS:
        main([one])
    write_json(Path(f"reports/data/{name}.json"), read_manifest(name).model_copy(update={"mean": 0.5}).model_dump())
    with pytest.raises(RunFailed, match=rf"reports/data/{name}.json is not what .* run `dvc repro pixels@{name}`"):
        train.main([suite])


def test_streams_show_scaled_pixels(mnist_folder):
    """Mean 0 and deviation 1 of what a network sees."""
    params = load()
    few = MNIST.model_copy(update={"limit": 600})
    for name in ("permuted_mnist", "rotated_mnist", "split_mnist"):
        chosen = params.benchmarks[name]
        stream = build_stream(few, chosen.stream, chosen.outputs, 1)
        assert (len(stream.tasks), stream.classes) == (chosen.stream.tasks, chosen.outputs)
        assert build_stream(few, chosen.stream, chosen.outputs, 1) is stream, "kept"
        assert (build_stream(few, chosen.stream, chosen.outputs, 2) is stream) == (name != "permuted_mnist")
    seen = images("mnist", None, mnist_folder.parent).x[:20000].float() * stream.scale + stream.shift
    assert abs(seen.mean()) < 0.01
    assert abs(seen.std() - 1) < 0.01


def test_two_tasks_are_learnt_and_growth_helps(mnist_folder):
    """Few epochs on the second: over 95 % on the first alone, over 80 % on average, more with growth than without."""
    params = load()
    stream_section = params.benchmarks["permuted_mnist"].stream.model_copy(update={"tasks": 2})
    stream = build_stream(MNIST, stream_section, 10, 0)
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
