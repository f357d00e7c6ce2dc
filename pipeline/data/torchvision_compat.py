"""torchvision beside any build of torch."""

import importlib
from types import ModuleType

import torch


def torchvision() -> ModuleType:
    """The torchvision package; models, data sets and transforms work, box operators only where its library loads."""
    try:
        return importlib.import_module("torchvision")
    except RuntimeError:  # a library for CUDA beside a CPU torch: it lacks operators that Python code extends
        for name in ("nms", "qnms"):
            if not hasattr(torch.ops.torchvision, name):
                signature = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
                torch.library.define(f"torchvision::{name}", signature)
        return importlib.import_module("torchvision")
