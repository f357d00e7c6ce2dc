"""CIFAR-10's images, the frozen encoder, its features in chunks, and heads on them."""

import contextlib
import dataclasses
import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from pipeline import cifar10, features, suites
from pipeline.download import WEIGHTS_FILE
from pipeline.params import Compute, Weights, load
from pipeline.paths import CIFAR10, RESNET18
from pipeline.runs import Record, compute, machine
from pipeline.tables import machines_of, provenance_line
from pipeline.train import write_suite
from pipeline.vision import torchvision
from tests.conftest import ROOT
from tests.helpers import made_up_cifar10, made_up_weights, toy_task

PARAMS = load()
HERE = Compute(workers=1, scheduler=None)


def manifest(**changes):
    parts = {
        **{"version": 1, "data": "d", "weights": "made up", "weights_sha256": "w", "size": 40},
        **{"mean": PARAMS.features.mean, "deviation": PARAMS.features.deviation},
        **{"images": 50, "test_images": 12, "torch": "1", "torchvision": "2"},
    }
    return cifar10.Manifest(**{**parts, **changes})


@pytest.fixture
def room(tmp_path, monkeypatch):
    """A folder to work in, in which a pool has threads in place of processes and chunks are small."""

    @contextlib.contextmanager
    def pool(settings):
        with ThreadPoolExecutor(settings.workers) as executor:
            yield executor

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(features, "side_by_side", pool)
    monkeypatch.setattr(cifar10, "CHUNK", 20)
    features.encoder.cache_clear()
    features.folded.cache_clear()
    return tmp_path


def noise(images, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (images, 3072), np.uint8))


# Images


def test_images_come_in_the_stored_order(room):
    records = made_up_cifar10(CIFAR10, per_file=30)
    data = cifar10.images()
    assert (data.x.shape, data.x_test.shape) == ((150, 3072), (30, 3072))
    assert torch.equal(data.x[30:60], torch.from_numpy(records["data_batch_2.bin"][:, 1:]))
    assert data.y_test.tolist() == records["test_batch.bin"][:, 0].tolist()
    few = cifar10.images(limit=90)
    assert (len(few.x), len(few.x_test)) == (90, 15)
    assert torch.equal(few.x, data.x[:90])
    (CIFAR10 / "data_batch_3.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks data_batch_3.bin: run `dvc repro download@cifar10`"):
        cifar10.images()


@pytest.mark.skipif(not (ROOT / CIFAR10).exists(), reason="CIFAR-10 is not downloaded")
def test_the_real_images_are_what_they_should_be():
    data = cifar10.images(None, ROOT / CIFAR10)
    assert (data.x.shape, data.x_test.shape) == ((50000, 3072), (10000, 3072))
    assert set(data.y.bincount().tolist()) == {5000}
    assert set(data.y_test.bincount().tolist()) == {1000}
    means = data.x.view(-1, 3, 1024).float().mean((0, 2)) / 255
    assert means.tolist() == pytest.approx([0.4914, 0.4822, 0.4465], abs=1e-4)
    assert data.x[0].view(3, 32, 32)[:, 0, 0].tolist() == [59, 62, 63], "the first frog, red, green and blue"


# The encoder


@pytest.fixture(scope="module")
def random_weights(tmp_path_factory):
    """ResNet18 as torchvision starts it, but with statistics in its BatchNorms."""
    torch.manual_seed(0)
    state = torchvision().models.resnet18(weights=None).state_dict()
    for name, value in state.items():
        if name.endswith(("running_mean", "running_var")):
            state[name] = torch.rand_like(value) + (0.5 if name.endswith("var") else -0.5)
    path = tmp_path_factory.mktemp("weights") / "random.pt"
    torch.save(state, path)
    return path


@pytest.mark.parametrize("form", [features.encoder, features.folded])
def test_the_encoder_is_frozen(random_weights, form):
    model = form(random_weights)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = features.encode(model, noise(3), manifest())
    assert found.shape == (3, 512)
    assert not found.requires_grad
    assert not any(value.requires_grad for value in model.parameters())
    assert not any(module.training for module in model.modules())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("form", [features.encoder, features.folded])
def test_the_batch_does_not_matter(random_weights, monkeypatch, form):
    model, x = form(random_weights), noise(7)
    together = features.encode(model, x, manifest())
    for batch in (1, 3):
        monkeypatch.setattr(features, "BATCH", batch)
        torch.testing.assert_close(features.encode(model, x, manifest()), together, atol=1e-4, rtol=1e-4)


def test_features_are_what_torchvision_has_before_its_classifier(random_weights):
    """With torchvision's own transforms, plain memory layout, and a look at what reaches the last layer."""
    tv, x = torchvision(), noise(3)
    model = tv.models.resnet18(weights=None)
    model.load_state_dict(torch.load(random_weights, weights_only=True))
    seen = []
    model.eval().fc.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    enlarged = tv.transforms.functional.resize(x.view(-1, 3, 32, 32) / 255, [40, 40], antialias=False)
    model(tv.transforms.functional.normalize(enlarged, PARAMS.features.mean, PARAMS.features.deviation))
    for form in (features.encoder, features.folded):
        ours = features.encode(form(random_weights), x, manifest())
        torch.testing.assert_close(ours, seen[0].detach(), atol=1e-4, rtol=1e-4)
        assert ours.std(0).mean() > 1e-3, "images differ"


def test_halved_weights_are_computed_with_in_full(tmp_path):
    made_up_weights(tmp_path / "w.pt")
    model = features.encoder(tmp_path / "w.pt")
    assert {value.dtype for value in model.parameters()} == {torch.float32}


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil",)


@pytest.mark.parametrize("content", [b"", b"no weights", {"fc.weight": torch.zeros(1)}, [1], Evil()])
def test_files_that_are_no_weights_are_refused_and_run_no_code(room, content):
    path = room / "w.pt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    with pytest.raises(
        features.Unusable, match=r"w.pt holds no weights of torchvision's ResNet18; see features.weights"
    ):
        features.encoder(path)
    assert not (room / "evil").exists()


# Extraction


def params_for(weights):
    known = {"made up": Weights(url=None, file="w", sha256=hashlib.sha256(weights.read_bytes()).hexdigest())}
    return PARAMS.model_copy(update={"features": PARAMS.features.model_copy(update={"weights": known})})


def test_the_manifest_names_what_decides(room):
    made_up_cifar10(CIFAR10, per_file=20)
    with pytest.raises(FileNotFoundError, match=r"weights.pt is missing: run `dvc repro weights`"):
        features.manifest_of(PARAMS, 64, cifar10.images())
    made_up_weights(RESNET18 / WEIGHTS_FILE)
    with pytest.raises(features.Unusable, match=r"which features.weights in params.yaml does not name"):
        features.manifest_of(PARAMS, 64, cifar10.images())
    params = params_for(RESNET18 / WEIGHTS_FILE)
    found = features.manifest_of(params, 64, cifar10.images())
    assert (found.weights, found.size, found.images, found.test_images) == ("made up", 64, 100, 20)
    assert found == features.manifest_of(params, 64, cifar10.images())
    content = bytearray((CIFAR10 / "test_batch.bin").read_bytes())
    content[-1] ^= 1
    (CIFAR10 / "test_batch.bin").write_bytes(content)
    assert features.manifest_of(params, 64, cifar10.images()).data != found.data


def test_extraction_goes_on_where_it_stopped(room, capsys):
    made_up_cifar10(CIFAR10, per_file=10)
    made_up_weights(RESNET18 / WEIGHTS_FILE)
    data, one = cifar10.images(), manifest(test_images=10)
    features.extract(one, data, HERE)
    whole = cifar10.features(one)
    assert (whole.x.shape, whole.x_test.shape) == ((50, 512), (10, 512))
    assert whole.y.tolist() == data.y.tolist()
    expected = features.encode(features.encoder(RESNET18 / WEIGHTS_FILE), data.x_test, one)
    torch.testing.assert_close(whole.x_test, expected, atol=1e-4, rtol=1e-4)
    assert sorted(p.name for p in one.folder.glob("*.npz")) == [
        *("test-000.npz", "train-000.npz", "train-001.npz", "train-002.npz")
    ]

    (one.folder / "train-000.npz").unlink()
    damaged = one.folder / "train-002.npz"
    damaged.write_bytes(damaged.read_bytes()[:-30])
    with pytest.raises(
        FileNotFoundError, match=r"40/train-000.npz is not what .* describes: run `dvc repro features@40`"
    ):
        cifar10.features(one)
    kept = (one.folder / "train-001.npz").stat().st_mtime_ns
    capsys.readouterr()
    features.extract(one, data, HERE)
    assert "30 images to do" in capsys.readouterr().out
    assert (one.folder / "train-001.npz").stat().st_mtime_ns == kept
    again = cifar10.features(one)
    assert torch.equal(again.x, whole.x)


def test_features_of_other_settings_are_never_mixed(room):
    made_up_cifar10(CIFAR10, per_file=10)
    made_up_weights(RESNET18 / WEIGHTS_FILE)
    first = manifest(test_images=10)
    other = manifest(test_images=10, mean=(0.0, 0.0, 0.0))
    features.extract(first, cifar10.images(), HERE)
    with pytest.raises(FileNotFoundError, match="features@40"):
        cifar10.features(other)
    before = cifar10.features(first)
    features.extract(other, cifar10.images(), HERE)
    assert not torch.allclose(cifar10.features(other).x, before.x)
    with pytest.raises(FileNotFoundError, match="features@40"):
        cifar10.features(first)


def test_a_missing_manifest_says_what_to_run(room):
    with pytest.raises(FileNotFoundError, match=r"reports/features/64.json is missing: run `dvc repro features@64`"):
        cifar10.read_manifest(64)


# Heads


def keep_features(one, seed=0):
    """Made-up features that can be told apart, as if they had been extracted."""
    data = toy_task(seed, rows=one.images, inputs=cifar10.WIDTH, classes=10)
    for chunk in one.chunks:
        chunk.save(*(rows.numpy() for rows in chunk.of(data)))
    (one.folder / "manifest.json").write_text(one.model_dump_json())
    return data


@pytest.fixture
def kept(room):
    """Features at the sizes that are compared, with their manifests."""
    cifar10.MANIFESTS.mkdir(parents=True)
    found = {}
    for size in PARAMS.features.compared:
        found[size] = manifest(size=size, images=300, test_images=60)
        keep_features(found[size], size)
        (cifar10.MANIFESTS / f"{size}.json").write_text(json.dumps(found[size].model_dump()))
    cifar10.build_stream.cache_clear()
    return found


def test_the_stream_shows_features_as_they_come(room):
    one = manifest(images=300, test_images=60)
    data = keep_features(one)
    section = PARAMS.cifar10.stream
    stream = cifar10.build_stream(one, section, 2, 0, 0, "none")
    assert (len(stream.tasks), stream.classes, stream.inputs, stream.scale, stream.shift) == (5, 2, 512, 1.0, 0.0)
    wanted = (data.y == 2) | (data.y == 3)
    assert torch.equal(stream.tasks[1].x, data.x[wanted])
    assert torch.equal(stream.tasks[1].y, (data.y[wanted] == 3).long())
    fewer = cifar10.build_stream(one, section, 2, 0, 100, "none")
    assert sum(len(task.x) for task in fewer.tasks) == 200
    assert sum(len(task.x_test) for task in fewer.tasks) == 60


def test_features_can_be_scaled(room):
    """By the training images that are used, one feature at a time, or one image at a time."""
    one = manifest(images=300, test_images=60)
    data = keep_features(one)
    streams = {
        scaling: cifar10.build_stream(one, PARAMS.cifar10.stream, 2, 0, 100, scaling)
        for scaling in ("standardised", "unit length")
    }
    rows, wanted = data.x[:200].double(), (data.y_test == 2) | (data.y_test == 3)
    shown = (data.x_test[wanted] - rows.mean(0)) / ((rows**2).mean(0) - rows.mean(0) ** 2) ** 0.5
    assert torch.allclose(streams["standardised"].tasks[1].x_test, shown.float(), atol=1e-5)
    every = torch.cat([task.x for task in streams["standardised"].tasks])
    assert torch.allclose(every.std(dim=0, correction=0), torch.ones(cifar10.WIDTH), atol=1e-5)
    shown = data.x_test[wanted] / (data.x_test[wanted] ** 2).sum(dim=1, keepdim=True) ** 0.5
    assert torch.allclose(streams["unit length"].tasks[1].x_test, shown)
    constant = dataclasses.replace(data, x=torch.ones_like(data.x))
    assert (cifar10.scaled(constant, "standardised").x == 0).all(), "a feature that does not vary"


def test_scaling_decides_runs_on_features_alone(kept):
    changed = PARAMS.changed({"cifar10.scaling": "standardised"})
    assert {run.key for run in suites.cifar10(changed)}.isdisjoint(run.key for run in suites.cifar10(PARAMS))
    on_mnist = [suites.table1(params, "split_mnist", "noracl") for params in (PARAMS, changed)]
    assert on_mnist[0] == on_mnist[1]


def test_rows_and_settings_are_the_papers(kept):
    """reports/paper/cifar10.csv, and the column for Split CIFAR-10 of reports/paper/hyperparameters.csv."""
    runs = suites.cifar10(PARAMS)
    rows = [line.split(",")[0] for line in (ROOT / "reports/paper/cifar10.csv").read_text().splitlines()[1:]]
    assert list(dict.fromkeys(run.method for run in runs)) == rows
    assert [run.seed for run in runs[:5]] == [0, 1, 2, 3, 4]
    settings = runs[-1].settings
    assert (settings.hidden, settings.growth.trigger, runs[-1].outputs) == ((128, 128), "joint", 2)
    ours = {
        **{"ED discount": settings.growth.gamma, "SVD threshold": settings.growth.epsilon},
        **{"Fisher percentile": settings.growth.percentile, "Cooldown epochs": settings.growth.cooldown},
        **{"Init scale": settings.growth.scale, "Fisher EMA decay": settings.ewc.decay},
        "EWC strength Split CIFAR-10": settings.ewc.strength,
        "Learning rate (task 1)": settings.optimisation.rate_first,
        "Learning rate (later tasks)": settings.optimisation.rate_later,
        **{"Gradient clipping": settings.optimisation.clip, "Batch size": settings.optimisation.batch_size},
        "Epochs (task 1)": settings.optimisation.epochs_first,
        "Epochs (later tasks)": settings.optimisation.epochs_later,
    }
    lines = (ROOT / "reports/paper/hyperparameters.csv").read_text().splitlines()[1:]
    printed = {name: float(value) for name, _, _, value, _ in (line.split(",") for line in lines) if value}
    assert ours == printed
    static = [run.settings for run in runs if run.method != "NORACL"]
    assert {one.growth.trigger for one in static} == {"none"}
    assert dataclasses.replace(static[0], growth=settings.growth) == settings


def test_the_key_follows_the_features(kept):
    run = suites.cifar10(PARAMS)[0]
    same = [
        dataclasses.replace(run, limit=600),
        dataclasses.replace(run, inputs=run.inputs.model_copy(update={"mean": 0.0})),
    ]
    other = [
        dataclasses.replace(run, features=None),
        dataclasses.replace(run, held_out=100),
        *(
            dataclasses.replace(run, features=manifest(**{name: value}))
            for name, value in (("weights", "x"), ("size", 41))
        ),
    ]
    assert {one.key for one in same} == {run.key}
    assert len({one.key for one in (run, *other)}) == len(other) + 1


def test_sizes_are_compared_on_one_seed_and_share_the_chosen_sizes_runs(kept):
    runs = suites.cifar10_sizes(PARAMS)
    assert list(dict.fromkeys(run.benchmark for run in runs)) == ["size_64", "size_128", "size_224"]
    assert {run.seed for run in runs} == {0}
    shared = {run.key for run in runs} & {run.key for run in suites.cifar10(PARAMS)}
    assert len(shared) == len(PARAMS.cifar10.compared_heads) + 1, "and NORACL, which does not choose"


def test_heads_learn_and_results_name_the_weights(kept):
    run = suites.cifar10(PARAMS)[-1]
    quick = dataclasses.replace(run.settings.optimisation, epochs_first=20, epochs_later=2, batch_size=16)
    history = compute(dataclasses.replace(run, settings=dataclasses.replace(run.settings, optimisation=quick))).history
    assert history.accuracy[0][0] > 0.9
    assert len(history.accuracy) == 5
    write_suite("cifar10", [run], [Record(5, history, None, {"total": 1.0}, machine())])
    assert "ResNet18 weights made up (sha256 w)" in provenance_line(machines_of("cifar10"))
