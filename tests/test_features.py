"""CIFAR-10's images, the frozen encoder, its features in chunks, and heads on them."""

import contextlib
import dataclasses
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from pipeline.config import ON_FEATURES, load
from pipeline.data import cifar10, encoder, streams
from pipeline.data.download import CIFAR10_FILES, WEIGHTS_FILE
from pipeline.data.manifests import Features, placeholder, read_manifest
from pipeline.data.torchvision_compat import torchvision
from pipeline.data.verified import Damaged
from pipeline.evidence import results
from pipeline.experiments import features, suites
from pipeline.experiments.train import write_suite
from pipeline.files import json_digest, write_json
from pipeline.paths import CANARIES, CIFAR10, MANIFESTS, RESNET18
from pipeline.report.labels import provenance_line
from pipeline.runs import canaries
from pipeline.runs.crews import RunFailed
from pipeline.runs.provenance import machine
from pipeline.runs.run import Record, compute
from pipeline.sections import Compute, Weights
from tests.conftest import ROOT
from tests.helpers import hashes, made_up_cifar10, made_up_weights, toy_task

PARAMS = load()
HERE = Compute(workers=1, scheduler=None)
FORMS = {"plain": encoder.encoder, "folded": lambda path: encoder.folded(encoder.encoder(path))}


def manifest(**changes):
    parts = {
        **{"canary": "c", "data": "d", "weights": "made up", "weights_sha256": "w", "size": 40},
        **{"name": "40", "interpolation": "bilinear"},
        **{"mean": PARAMS.encoder.mean, "deviation": PARAMS.encoder.deviation},
        **{"images": 50, "test_images": 12, "torch": "1", "torchvision": "2"},
    }
    return Features(**{**parts, **changes})


def forget():
    """What this process remembers of files, because no file changes under a run."""
    for cache in (features._folded, cifar10._read, streams._built):
        cache.cache_clear()


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
    forget()
    return tmp_path


@pytest.fixture
def downloaded(room, monkeypatch):
    """A function that makes up CIFAR-10, whose hashes are pinned, and weights: the records and the weights' hash."""

    def make(per_file=10):
        records = made_up_cifar10(CIFAR10, per_file)
        for name, digest in hashes(records).items():
            monkeypatch.setitem(CIFAR10_FILES, name, digest)
        made_up_weights(RESNET18 / WEIGHTS_FILE)
        return records, hashlib.sha256((RESNET18 / WEIGHTS_FILE).read_bytes()).hexdigest()

    return make


def flip(path, place=-1):
    """One bit of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def noise(images, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (images, 3072), np.uint8))


# Images


def test_images_come_in_the_stored_order(downloaded):
    records, _ = downloaded(per_file=30)
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


@pytest.mark.parametrize("name", CIFAR10_FILES)
def test_images_that_are_not_the_pinned_ones_are_refused(downloaded, name):
    downloaded()
    path = CIFAR10 / name
    whole = path.read_bytes()
    for damaged in (whole[:-1] + bytes([whole[-1] ^ 1]), whole[:-1], whole + b"\0", b""):
        path.write_bytes(damaged)
        with pytest.raises(Damaged, match=f"{name} is damaged: run `dvc repro download@cifar10` after deleting it"):
            cifar10.images()
    path.write_bytes(whole)
    assert len(cifar10.images().x) == 50


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


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_encoder_is_frozen(random_weights, form):
    model = form(random_weights)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = encoder.encode(model, noise(3), manifest())
    assert found.shape == (3, 512)
    assert not found.requires_grad
    assert not any(value.requires_grad for value in model.parameters())
    assert not any(module.training for module in model.modules())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_batch_does_not_matter(random_weights, monkeypatch, form):
    model, x = form(random_weights), noise(7)
    together = encoder.encode(model, x, manifest())
    for batch in (1, 3):
        monkeypatch.setattr(encoder, "BATCH", batch)
        torch.testing.assert_close(encoder.encode(model, x, manifest()), together, atol=1e-4, rtol=1e-4)


def test_features_are_what_torchvision_has_before_its_classifier(random_weights):
    """With torchvision's own transforms, plain memory layout, and a look at what reaches the last layer."""
    tv, x = torchvision(), noise(3)
    model = tv.models.resnet18(weights=None)
    model.load_state_dict(torch.load(random_weights, weights_only=True))
    seen = []
    model.eval().fc.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    enlarged = tv.transforms.functional.resize(x.view(-1, 3, 32, 32) / 255, [40, 40], antialias=False)
    model(tv.transforms.functional.normalize(enlarged, PARAMS.encoder.mean, PARAMS.encoder.deviation))
    for form in FORMS.values():
        ours = encoder.encode(form(random_weights), x, manifest())
        torch.testing.assert_close(ours, seen[0].detach(), atol=1e-4, rtol=1e-4)
        assert ours.std(0).mean() > 1e-3, "images differ"


def test_bicubic_images_are_what_torchvisions_transforms_make_of_pictures():
    """To the bit: Resize on a PIL image rounds to whole grey values, ToTensor and Normalize follow."""
    transforms, x, one = torchvision().transforms, noise(5), manifest(size=224, interpolation="bicubic")
    made = transforms.Compose(
        [
            transforms.ToPILImage(),
            transforms.Resize((224, 224), interpolation=transforms.InterpolationMode.BICUBIC),
            transforms.ToTensor(),
            transforms.Normalize(PARAMS.encoder.mean, PARAMS.encoder.deviation),
        ]
    )
    expected = torch.stack([made(image) for image in x.view(-1, 3, 32, 32)])
    found = encoder.bicubic(x.view(-1, 3, 32, 32), one)
    assert torch.equal(found, expected)
    assert found.is_contiguous(memory_format=torch.channels_last), "as the network is"
    other = encoder.bilinear(x.view(-1, 3, 32, 32), one)
    assert (found - other).abs().max() > 0.1


def test_a_manifest_says_how_its_images_are_enlarged(random_weights):
    model, x, one = encoder.encoder(random_weights), noise(3), manifest(interpolation="bicubic")
    found = encoder.encode(model, x, one)
    with torch.inference_mode():
        assert torch.equal(found, model(encoder.bicubic(x.view(-1, 3, 32, 32), one)))
    assert not torch.allclose(found, encoder.encode(model, x, manifest()))


def test_every_interpolation_has_its_own_canary():
    images = PARAMS.encoder.images.values()
    assert {image.interpolation for image in images} <= encoder.PREPARED.keys() == encoder.CANARY.keys()
    committed = canaries.committed("features")
    assert committed.keys() == set(encoder.CANARY.values())
    assert not canaries.agree(*(committed[name] for name in encoder.CANARY.values()))
    digests = {name: json_digest(committed[canary]) for name, canary in encoder.CANARY.items()}
    for path in MANIFESTS.glob("cifar10_*.json"):
        known = read_manifest(path.stem)
        assert (f"cifar10_{known.name}", known.canary) == (path.stem, digests[known.interpolation])


def test_halved_weights_are_computed_with_in_full(tmp_path):
    made_up_weights(tmp_path / "w.pt")
    model = encoder.encoder(tmp_path / "w.pt")
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
    with pytest.raises(encoder.Unusable, match=r"w.pt holds no weights of torchvision's ResNet18; see encoder.weights"):
        encoder.encoder(path)
    assert not (room / "evil").exists()


# Extraction


def params_for(weights):
    known = {"made up": Weights(url=None, file="w", sha256=hashlib.sha256(weights.read_bytes()).hexdigest())}
    return PARAMS.model_copy(update={"encoder": PARAMS.encoder.model_copy(update={"weights": known})})


def test_the_manifest_names_what_decides(downloaded, monkeypatch):
    downloaded(per_file=20)
    write_json(CANARIES / "features.json", {"features": [1.0], "features, bicubic": [1.0]})
    with pytest.raises(
        encoder.Unusable, match=r"encoder.weights in params.yaml does not name: run `dvc repro encoder`"
    ):
        features.manifest_of(PARAMS, "64", cifar10.images())
    params = params_for(RESNET18 / WEIGHTS_FILE)
    found = features.manifest_of(params, "64", cifar10.images())
    assert (found.weights, found.name, found.size, found.interpolation) == ("made up", "64", 64, "bilinear")
    assert (found.images, found.test_images) == (100, 20)
    bicubic = features.manifest_of(params, "224_bicubic", cifar10.images())
    assert (bicubic.name, bicubic.size, bicubic.interpolation) == ("224_bicubic", 224, "bicubic")
    assert found == features.manifest_of(params, "64", cifar10.images())
    write_json(CANARIES / "features.json", {"features": [2.0], "features, bicubic": [1.0]})
    assert features.manifest_of(params, "64", cifar10.images()).canary != found.canary
    assert features.manifest_of(params, "224_bicubic", cifar10.images()) == bicubic, "whose canary is its own"
    data = cifar10.images()
    monkeypatch.setitem(CIFAR10_FILES, "test_batch.bin", "0" * 64)
    assert features.manifest_of(params, "64", data).data != found.data
    (RESNET18 / WEIGHTS_FILE).unlink()
    with pytest.raises(FileNotFoundError, match=r"resnet18 lacks weights.pt: run `dvc repro encoder`"):
        features.manifest_of(PARAMS, "64", data)


def test_the_committed_manifests_name_the_pinned_images():
    for path in MANIFESTS.glob("cifar10_*.json"):
        assert read_manifest(path.stem).data == json_digest(CIFAR10_FILES)


def test_a_worker_with_other_weights_refuses(downloaded):
    """Also one that has worked with the right ones before."""
    _, digest = downloaded()
    images = noise(2).numpy()
    before = features.work(images, manifest(weights_sha256=digest))
    other = manifest(weights_sha256="0" * 64)
    refused = r"the worker in .* on .* refuses: data/resnet18/weights.pt is damaged: run `dvc repro encoder`"
    with pytest.raises(RunFailed, match=refused):
        features.work(images, other)
    with pytest.raises(RunFailed, match=refused):
        features.extract(other.model_copy(update={"test_images": 10}), cifar10.images(), HERE)
    assert np.array_equal(features.work(images, manifest(weights_sha256=digest)), before)
    forget()
    flip(RESNET18 / WEIGHTS_FILE)
    with pytest.raises(RunFailed, match=refused):
        features.work(images, manifest(weights_sha256=digest))
    (RESNET18 / WEIGHTS_FILE).unlink()
    with pytest.raises(RunFailed, match=r"refuses: data/resnet18 lacks weights.pt: run `dvc repro encoder`"):
        features.work(images, manifest(weights_sha256=digest))


def test_a_worker_that_returns_no_features_is_not_believed(downloaded, monkeypatch):
    downloaded()
    one = manifest(test_images=10)
    good = np.zeros((20, 512), np.float32)
    for bad in (None, good[:, :511], good.astype(np.float64), good + np.float32(np.nan)):
        monkeypatch.setattr(features, "work", lambda pixels, one, bad=bad: bad)
        with pytest.raises(RunFailed, match=r"features@40: a worker gave no features of the images of t\w+-00\d.npz"):
            features.extract(one, cifar10.images(), HERE)


def test_extraction_goes_on_where_it_stopped(downloaded, capsys):
    _, digest = downloaded()
    data, one = cifar10.images(), manifest(test_images=10, weights_sha256=digest)
    features.extract(one, data, HERE)
    whole = cifar10.features(one)
    assert (whole.x.shape, whole.x_test.shape) == ((50, 512), (10, 512))
    assert whole.y.tolist() == data.y.tolist()
    expected = encoder.encode(encoder.encoder(RESNET18 / WEIGHTS_FILE), data.x_test, one)
    torch.testing.assert_close(whole.x_test, expected, atol=1e-4, rtol=1e-4)
    assert sorted(p.name for p in cifar10.folder(one).glob("*.npz")) == [
        *("test-000.npz", "train-000.npz", "train-001.npz", "train-002.npz")
    ]

    folder = cifar10.folder(one)
    (folder / "train-000.npz").unlink()
    damaged = folder / "train-002.npz"
    damaged.write_bytes(damaged.read_bytes()[:-30])
    with pytest.raises(FileNotFoundError, match=r"features/40 lacks train-000.npz: run `dvc repro features@40`"):
        cifar10.features(one)
    kept = (folder / "train-001.npz").stat().st_mtime_ns
    capsys.readouterr()
    features.extract(one, data, HERE)
    assert "30 images to do" in capsys.readouterr().out
    assert (folder / "train-001.npz").stat().st_mtime_ns == kept
    again = cifar10.features(one)
    assert torch.equal(again.x, whole.x)


def save(path, **content):
    """A chunk's file with what a chunk of features would not hold."""
    with np.load(path) as found:
        np.savez(path, **{**found, **{name: change(found) for name, change in content.items()}})


DAMAGE = {
    "reversed": lambda path, other: save(path, x=lambda found: found["x"][::-1], y=lambda found: found["y"][::-1]),
    "a number": lambda path, other: save(path, x=lambda found: found["x"] + np.float32(1e-7)),
    "a label": lambda path, other: save(path, y=lambda found: (found["y"] + 1) % 10),
    "wider": lambda path, other: save(path, x=lambda found: found["x"].astype(np.float64)),
    "signed": lambda path, other: save(path, y=lambda found: found["y"].astype(np.int8)),
    "no digest": lambda path, other: save(path, digest=lambda found: np.array("")),
    "no member": lambda path, other: np.savez(path, x=np.zeros((20, 512), np.float32), y=np.zeros(20, np.uint8)),
    "swapped": lambda path, other: path.write_bytes(other.read_bytes()),
    "truncated": lambda path, other: path.write_bytes(path.read_bytes()[:-30]),
    "short": lambda path, other: path.write_bytes(path.read_bytes()[:1000]),
    "a bit": lambda path, other: flip(path, 1000),
    "empty": lambda path, other: path.write_bytes(b""),
    "an array": lambda path, other: path.write_bytes(b"\x93NUMPY" + bytes(200)),
    "a pickle": lambda path, other: np.savez(path, x=np.array([{}]), y=np.array([{}]), digest=np.array([{}])),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_training_refuses_damaged_features_and_extraction_computes_them_again(downloaded, capsys, damage):
    _, digest = downloaded()
    data, one = cifar10.images(), manifest(test_images=10, weights_sha256=digest)
    features.extract(one, data, HERE)
    whole, stream = cifar10.features(one), PARAMS.benchmarks["split_cifar10"].stream
    folder = cifar10.folder(one)
    damage(folder / "train-001.npz", folder / "train-000.npz")
    forget()
    with pytest.raises(
        Damaged,
        match=r"40/train-001.npz is not what reports/data/cifar10_40.json describes: "
        r"run `dvc repro features@40` after deleting it",
    ):
        streams.build_stream(one, stream, 2, 0)
    capsys.readouterr()
    features.extract(one, data, HERE)
    assert "20 images to do" in capsys.readouterr().out
    again = cifar10.features(one)
    assert torch.equal(again.x, whole.x)
    assert torch.equal(again.y, whole.y)


def test_chunks_are_files_that_numpy_reads(downloaded):
    _, digest = downloaded()
    data, one = cifar10.images(), manifest(test_images=10, weights_sha256=digest)
    features.extract(one, data, HERE)
    with np.load(cifar10.folder(one) / "train-001.npz") as found:
        assert (found["x"].shape, found["x"].dtype) == ((20, 512), np.float32)
        assert (found["y"].shape, found["y"].dtype) == ((20,), np.uint8)
        assert found["y"].tolist() == data.y[20:40].tolist()


def test_the_digest_of_features_is_that_of_their_bytes(room):
    """Whoever has other bytes has another digest; nobody reads all of them for it."""
    one = manifest(images=300, test_images=60)
    data = keep_features(one)
    here = cifar10.digest_of_features(one)
    shown = streams.build_stream(one, PARAMS.benchmarks["split_cifar10"].stream, 2, 0)
    for chunk in cifar10.chunks(one):
        chunk.save(*(rows.numpy() for rows in chunk.of(data)))
    assert cifar10.digest_of_features(one) == here
    assert streams.build_stream(one, PARAMS.benchmarks["split_cifar10"].stream, 2, 0) is shown, "kept"
    chunk = cifar10.chunks(one)[3]
    x, y = (rows.numpy() for rows in chunk.of(data))
    chunk.save(x + np.float32(1), y)
    assert cifar10.digest_of_features(one) != here
    assert cifar10.features(one).x[60, 0] == data.x[60, 0] + 1, "nothing is remembered of files that have changed"
    seen = streams.build_stream(one, PARAMS.benchmarks["split_cifar10"].stream, 2, 0)
    assert sum(task.x.sum() for task in seen.tasks) > sum(task.x.sum() for task in shown.tasks)
    chunk.path.unlink()
    with pytest.raises(FileNotFoundError, match=r"features/40 lacks train-003.npz: run `dvc repro features@40`"):
        cifar10.digest_of_features(one)
    chunk.path.write_bytes(b"nothing")
    with pytest.raises(Damaged, match=r"train-003.npz is not what .* describes: run `dvc repro features@40`"):
        cifar10.digest_of_features(one)


def test_features_of_other_settings_are_never_mixed(downloaded):
    _, digest = downloaded()
    first = manifest(test_images=10, weights_sha256=digest)
    other = first.model_copy(update={"mean": (0.0, 0.0, 0.0)})
    features.extract(first, cifar10.images(), HERE)
    with pytest.raises(Damaged, match="features@40"):
        cifar10.features(other)
    before = cifar10.features(first)
    features.extract(other, cifar10.images(), HERE)
    assert not torch.allclose(cifar10.features(other).x, before.x)
    with pytest.raises(Damaged, match="features@40"):
        cifar10.features(first)


def test_a_missing_manifest_says_what_to_run(room):
    for name, stage in (("cifar10_64", "features@64"), ("fashion_mnist", "pixels@fashion_mnist")):
        with pytest.raises(FileNotFoundError, match=rf"reports/data/{name}.json is missing: run `dvc repro {stage}`"):
            read_manifest(name)


# Heads


def keep_features(one, seed=0):
    """Made-up features that can be told apart, as if they had been extracted."""
    data = toy_task(seed, rows=one.images, inputs=cifar10.WIDTH, classes=10)
    for chunk in cifar10.chunks(one):
        chunk.save(*(rows.numpy() for rows in chunk.of(data)))
    (cifar10.folder(one) / "manifest.json").write_text(one.model_dump_json(), encoding="utf-8")
    return data


@pytest.fixture
def kept(room):
    """A builder of runs on features, which are there by every recipe, with their manifests."""
    for seed, (name, image) in enumerate(PARAMS.encoder.images.items()):
        one = manifest(name=name, size=image.size, interpolation=image.interpolation, images=300, test_images=60)
        keep_features(one, seed)
        write_json(MANIFESTS / f"cifar10_{name}.json", one.model_dump())
    return suites.Builder(PARAMS)


def on_features(make, benchmark="split_cifar10"):
    return make.static("", benchmark) + make.noracl("", benchmark)


def test_the_stream_shows_features_as_they_come(room):
    one = manifest(images=300, test_images=60)
    data = keep_features(one)
    stream = streams.build_stream(one, PARAMS.benchmarks["split_cifar10"].stream, 2, 0)
    assert (len(stream.tasks), stream.classes, stream.inputs, stream.scale, stream.shift) == (5, 2, 512, 1.0, 0.0)
    wanted = (data.y == 2) | (data.y == 3)
    assert torch.equal(stream.tasks[1].x, data.x[wanted])
    assert torch.equal(stream.tasks[1].y, (data.y[wanted] == 3).long())


def test_rows_and_settings_are_the_papers(kept):
    """reports/paper/cifar10.csv, and the column for Split CIFAR-10 of reports/paper/hyperparameters.csv."""
    runs = on_features(kept)
    rows = [
        line.split(",")[0] for line in (ROOT / "reports/paper/cifar10.csv").read_text(encoding="utf-8").splitlines()[1:]
    ]
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
    lines = (ROOT / "reports/paper/hyperparameters.csv").read_text(encoding="utf-8").splitlines()[1:]
    printed = {name: float(value) for name, _, _, value, _ in (line.split(",") for line in lines) if value}
    assert ours == printed
    static = [run.settings for run in runs if run.method != "NORACL"]
    assert {one.growth.trigger for one in static} == {"none"}
    assert dataclasses.replace(static[0], growth=settings.growth) == settings


def test_the_key_follows_the_features(kept):
    run = on_features(kept)[0]
    changes = {
        **{"canary": "x", "data": "x", "weights": "x", "weights_sha256": "x", "torch": "x", "torchvision": "x"},
        **{"name": "x", "size": 41, "interpolation": "bilinear", "mean": (0.0,) * 3, "deviation": (1.0,) * 3},
        **{"images": 299, "test_images": 59},
    }
    assert changes.keys() == Features.model_fields.keys() - {"kind"}
    other = [run.data.model_copy(update={name: value}) for name, value in changes.items()] + [placeholder("mnist")]
    keys = {dataclasses.replace(run, data=data).key for data in other}
    assert len(keys - {run.key}) == len(other)


def test_sizes_are_compared_on_one_seed_and_share_the_chosen_sizes_runs(kept):
    runs = kept.image_sizes("")
    assert list(dict.fromkeys(run.benchmark for run in runs)) == ["size_64", "size_128", "size_224"]
    assert {run.seed for run in runs} == {0}
    shared = {run.key for run in runs} & {run.key for run in on_features(kept, ON_FEATURES)}
    assert len(shared) == len(PARAMS.image_sizes.heads) + 1, "and NORACL, which does not choose"


def test_heads_learn_and_results_name_the_weights(kept):
    run = on_features(kept)[-1]
    quick = dataclasses.replace(run.settings.optimisation, epochs_first=20, epochs_later=2, batch_size=16)
    history = compute(dataclasses.replace(run, settings=dataclasses.replace(run.settings, optimisation=quick))).history
    assert history.accuracy[0][0] > 0.9
    assert len(history.accuracy) == 5
    write_suite("cifar10/some", [run], [Record(5, history, None, {"total": 1.0}, machine())])
    assert "ResNet18 weights made up (sha256 w)" in provenance_line(results.machines("cifar10"))
