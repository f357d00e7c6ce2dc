"""The frozen ResNet18, and what it makes of images (section 5.2)."""

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.fx.experimental.optimization import fuse

from pipeline.data.manifests import Features
from pipeline.data.torchvision_compat import torchvision
from pipeline.files import StageError
from pipeline.sections import Interpolation

BATCH = 16  # images at a time: 8 to 32 were about as fast, 64 slower


class Unusable(StageError):
    """The weights are not what ResNet18 needs; the message names the params.yaml key."""


def resnet18() -> nn.Module:
    """torchvision's network, with random weights."""
    model: nn.Module = torchvision().models.resnet18(weights=None)
    return model


def encoder(weights: Path) -> nn.Module:
    """ResNet18 with these weights, frozen."""
    model = resnet18()
    try:
        model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    except (RuntimeError, TypeError, AttributeError, EOFError, pickle.UnpicklingError) as error:
        raise Unusable(f"{weights} holds no weights of torchvision's ResNet18; see encoder.weights: {error}") from None
    return frozen(model)


def frozen(model: nn.Module) -> nn.Module:
    """The model without its classifier, for inference only."""
    model.fc = nn.Identity()
    model.eval().requires_grad_(False).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def folded(model: nn.Module) -> nn.Module:
    """The model with each BatchNorm folded into the convolution before it: the same features, a fifth sooner."""
    return frozen(fuse(model))


def standardised(images: Tensor, manifest: Features) -> Tensor:
    """Pixels as fractions, minus the mean of their channel, over its deviation."""
    mean, deviation = (torch.tensor(values).view(1, 3, 1, 1) for values in (manifest.mean, manifest.deviation))
    return (images / 255 - mean) / deviation


def bilinear(images: Tensor, manifest: Features) -> Tensor:
    """Standardised, then enlarged by torch."""
    ready = standardised(images.contiguous(memory_format=torch.channels_last), manifest)
    return nn.functional.interpolate(ready, size=manifest.size, mode="bilinear", align_corners=False)


def bicubic(images: Tensor, manifest: Features) -> Tensor:
    """Enlarged by Pillow to whole grey values, then standardised: torchvision's Resize, ToTensor and Normalize."""
    shape = (manifest.size, manifest.size)
    pictures = [Image.fromarray(one) for one in images.permute(0, 2, 3, 1).contiguous().numpy()]
    enlarged = np.stack([np.asarray(picture.resize(shape, Image.Resampling.BICUBIC)) for picture in pictures])
    return standardised(torch.from_numpy(enlarged).permute(0, 3, 1, 2), manifest)


PREPARED: dict[Interpolation, Callable[[Tensor, Features], Tensor]] = {"bilinear": bilinear, "bicubic": bicubic}
#: What reports/canaries/features.json calls the numbers of each.
CANARY: dict[Interpolation, str] = {"bilinear": "features", "bicubic": "features, bicubic"}


@torch.inference_mode()
def encode(model: nn.Module, x: Tensor, manifest: Features) -> Tensor:
    """Features of images (rows of 3 × 32 × 32 pixels, uint8)."""
    prepared = PREPARED[manifest.interpolation]
    return torch.cat([model(prepared(part.view(-1, 3, 32, 32), manifest)) for part in torch.split(x, BATCH)])
