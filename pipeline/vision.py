"""torchvision beside any build of torch."""

import importlib
from types import ModuleType

import torch

#: Operators that torchvision's Python code registers fake versions of at import time. Its wheel is built for
#: CUDA: beside a CPU torch its operator library does not load, and the import dies where they are missing.
_OPERATORS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}


def torchvision() -> ModuleType:
    """The torchvision package; models, data sets and transforms work, box operators only where its library loads."""
    try:
        return importlib.import_module("torchvision")
    except RuntimeError:
        for name, signature in _OPERATORS.items():
            if not hasattr(torch.ops.torchvision, name):
                torch.library.define(f"torchvision::{name}", signature)
        return importlib.import_module("torchvision")
