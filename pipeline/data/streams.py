"""Data sets as task streams."""

from functools import lru_cache

from noracl import Stream, Task, permuted, rotated, split
from pipeline.data.cifar10 import digest_of_features, features
from pipeline.data.manifests import Manifest
from pipeline.data.pixels import images, name_of
from pipeline.sections import StreamSection


def make_stream(data: Task, section: StreamSection, outputs: int, seed: int, **scaling: float) -> Stream:
    """A stream of params.yaml made of one data set; the seed draws the permutations of a permuted one."""
    if section.kind == "permuted":
        return permuted(data, section.tasks, outputs, seed, **scaling)
    if section.kind == "rotated":
        return rotated(data, section.angles, outputs, section.interpolation, **scaling)
    return split(data, section.pairs, outputs, **scaling)


@lru_cache(maxsize=1)  # rotated images take a while to make and are the same for every run of a suite
def _built(manifest: Manifest, content: str, section: StreamSection, outputs: int, seed: int) -> Stream:
    data = features(manifest) if manifest.kind == "features" else images(name_of(manifest), manifest.limit)
    return make_stream(data, section, outputs, seed, **scaling(manifest))


def scaling(manifest: Manifest) -> dict[str, float]:
    """Pixels from 0 to 255 as fractions, standardised; features as they are."""
    if manifest.kind == "features":
        return {}
    return {"scale": 1 / (255 * manifest.deviation), "shift": -manifest.mean / manifest.deviation}


def build_stream(manifest: Manifest, section: StreamSection, outputs: int, seed: int) -> Stream:
    """The same from the files on disk; what the seed does not change is built once while the files stay the same."""
    content = digest_of_features(manifest) if manifest.kind == "features" else manifest.data
    return _built(manifest, content, section, outputs, seed if section.kind == "permuted" else 0)
