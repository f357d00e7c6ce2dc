"""Task streams of section 5: permuted, rotated and split, all domain-incremental with one shared head."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from noracl.method.checks import choice, number, require, whole
from noracl.method.seeds import generator


@dataclass(frozen=True, eq=False)
class Task:
    """Arrays or tensors: inputs uint8 or floating, labels integers. With ``columns`` the network sees x[:, columns]."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    columns: Tensor | None = None

    def __post_init__(self) -> None:
        for name in ("x", "x_test"):
            value = torch.as_tensor(getattr(self, name))
            pixels = value.dtype == torch.uint8
            require(value.ndim == 2, f"{name} must be a samples × inputs matrix, got shape {tuple(value.shape)}")
            require(pixels or value.is_floating_point(), f"{name} must be uint8 or floating, got {value.dtype}")
            object.__setattr__(self, name, value if pixels else value.float())
        for name in ("y", "y_test"):
            value = torch.as_tensor(getattr(self, name))
            fractional = value.is_floating_point() or value.is_complex() or value.dtype == torch.bool
            require(not fractional, f"{name} must hold whole numbers, got {value.dtype}")
            object.__setattr__(self, name, value.long())
        if self.columns is not None:
            object.__setattr__(self, "columns", torch.as_tensor(self.columns).long())


@dataclass(frozen=True, eq=False)
class Stream:
    """Tasks in the order of arrival, the size of the head, and the scaling x·scale + shift of the inputs."""

    tasks: Sequence[Task]
    classes: int
    scale: float = 1.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        whole("classes", self.classes, 2)
        number("scale", self.scale, -math.inf)
        number("shift", self.shift, -math.inf)
        require(len(self.tasks) > 0, "tasks must hold at least one task")
        for position, task in enumerate(self.tasks):
            for x, y, part in ((task.x, task.y, ""), (task.x_test, task.y_test, "_test")):
                x_name, y_name = f"tasks[{position}].x{part}", f"tasks[{position}].y{part}"
                require(len(x) > 0, f"{x_name} is empty: a task needs at least one sample")
                require(y.shape == (len(x),), f"{y_name} must hold {len(x)} labels, got shape {tuple(y.shape)}")
                require(x.shape[1] == self.inputs, f"{x_name} must have {self.inputs} columns, got {x.shape[1]}")
                finite = not x.is_floating_point() or bool(torch.isfinite(x).all())
                require(finite, f"{x_name} holds NaN or infinite values: inputs must be finite")
                low, high, head = int(y.min()), int(y.max()), f"[0, {self.classes - 1}], the head's classes"
                require(low >= 0 and high < self.classes, f"{y_name} must lie in {head}, got {low} to {high}")
            permutes = task.columns is None or torch.equal(task.columns.sort()[0], torch.arange(self.inputs))
            require(permutes, f"tasks[{position}].columns must be a permutation of 0 … {self.inputs - 1}")

    @property
    def inputs(self) -> int:
        """Number of inputs of the network."""
        return self.tasks[0].x.shape[1]


def permuted(data: Task, tasks: int, classes: int, seed: int, **scaling: float) -> Stream:
    """Each task permutes the inputs at random, by the seed and its number only: a short stream starts a long one."""
    whole("tasks", tasks, 1)
    orders = [torch.randperm(data.x.shape[1], generator=generator(seed, "permutation", t)) for t in range(tasks)]
    return Stream([replace(data, columns=order) for order in orders], classes, **scaling)


def rotated(
    data: Task, angles: Sequence[float], classes: int, interpolation: str = "bilinear", **scaling: float
) -> Stream:
    """Each task turns the (square) images by its own angle, in degrees, counter-clockwise."""
    for angle in angles:
        number("angles", angle, -math.inf)
    choice("interpolation", interpolation, ("nearest", "bilinear"))
    turned = [[rotate(x, angle, interpolation) for x in (data.x, data.x_test)] for angle in angles]
    return Stream([Task(x, data.y, x_test, data.y_test) for x, x_test in turned], classes, **scaling)


def rotate(x: Tensor, angle: float, interpolation: str = "bilinear") -> Tensor:
    """Rows of ``x`` as square images turned about their centre, empty corners 0; uint8 stays uint8."""
    side = math.isqrt(x.shape[1])
    require(side * side == x.shape[1], f"x must hold square images, got rows of {x.shape[1]} pixels")
    if angle % 360 == 0:
        return x
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    matrix = torch.tensor([[[cos, -sin, 0.0], [sin, cos, 0.0]]])
    grid = torch.nn.functional.affine_grid(matrix, [1, 1, side, side], align_corners=False).to(x.device)
    turned = torch.empty_like(x)
    for start in range(0, len(x), 4096):  # images as channels of one picture: one grid for all
        part = x[start : start + 4096].float().view(1, -1, side, side)
        out = torch.nn.functional.grid_sample(part, grid, mode=interpolation, align_corners=False).view(-1, side**2)
        turned[start : start + 4096] = out.round_().to(x.dtype) if x.dtype == torch.uint8 else out
    return turned


def split(data: Task, pairs: Sequence[Sequence[int]], classes: int = 2, **scaling: float) -> Stream:
    """Each task tells the two classes of a pair apart, as labels 0 and 1; the head may have outputs that none uses."""
    tasks = []
    for pair in pairs:
        different = len(pair) == 2 and pair[0] != pair[1]
        require(different, f"pairs must hold two different classes each, got {tuple(pair)}")
        rows: list[Tensor] = []
        for x, y in ((data.x, data.y), (data.x_test, data.y_test)):
            chosen = (y == pair[0]) | (y == pair[1])
            rows += [x[chosen], (y[chosen] == pair[1]).long()]
        tasks.append(Task(*rows))
    return Stream(tasks, classes, **scaling)
