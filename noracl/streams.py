"""Task streams of section 5: permuted, rotated and split, all domain-incremental with one shared head."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from noracl.checks import choice, number, whole
from noracl.seeds import generator

INTERPOLATIONS = ("nearest", "bilinear")


@dataclass(frozen=True, eq=False)
class Task:
    """Training and test rows of one task; with ``columns`` the network sees x[:, columns], without a copy.

    Arrays or tensors; inputs are uint8 or floating, labels are integers.
    """

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    columns: Tensor | None = None

    def __post_init__(self) -> None:
        for name in ("x", "x_test"):
            value = torch.as_tensor(getattr(self, name))
            if value.ndim != 2:
                raise ValueError(f"{name} must be a samples × inputs matrix, got shape {tuple(value.shape)}")
            if value.dtype != torch.uint8:
                if not value.is_floating_point():
                    raise ValueError(f"{name} must be uint8 or floating, got {value.dtype}")
                value = value.float()
            object.__setattr__(self, name, value)
        for name in ("y", "y_test"):
            value = torch.as_tensor(getattr(self, name))
            if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
                raise ValueError(f"{name} must hold whole numbers, got {value.dtype}")
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
        if not self.tasks:
            raise ValueError("tasks must hold at least one task")
        seen: set[int] = set()  # permuted tasks share their arrays: look at each one once
        for position, task in enumerate(self.tasks):
            for x, y, part in ((task.x, task.y, ""), (task.x_test, task.y_test, "_test")):
                where = f"tasks[{position}]"
                if not len(x):
                    raise ValueError(f"{where}.x{part} is empty: a task needs at least one sample")
                if y.shape != (len(x),):
                    raise ValueError(f"{where}.y{part} must hold {len(x)} labels, got shape {tuple(y.shape)}")
                if x.shape[1] != self.inputs:
                    raise ValueError(f"{where}.x{part} must have {self.inputs} columns, got {x.shape[1]}")
                if id(x) not in seen and x.is_floating_point() and not bool(torch.isfinite(x).all()):
                    raise ValueError(f"{where}.x{part} holds NaN or infinite values: inputs must be finite")
                if id(y) not in seen and not (int(y.min()) >= 0 and int(y.max()) < self.classes):
                    raise ValueError(
                        f"{where}.y{part} must lie in [0, {self.classes - 1}], the head's classes, "
                        f"got {int(y.min())} to {int(y.max())}"
                    )
                seen |= {id(x), id(y)}
            if task.columns is not None and not torch.equal(task.columns.sort()[0], torch.arange(self.inputs)):
                raise ValueError(f"tasks[{position}].columns must be a permutation of 0 … {self.inputs - 1}")

    @property
    def inputs(self) -> int:
        """Number of inputs of the network."""
        return self.tasks[0].x.shape[1]


def permuted(data: Task, tasks: int, classes: int, seed: int, **scaling: float) -> Stream:
    """Each task shows the same data through its own random permutation of the inputs.

    The permutation of task t depends on the seed and t alone, so a short stream is the start of a long one.
    """
    whole("tasks", tasks, 1)
    orders = [torch.randperm(data.x.shape[1], generator=generator(seed, "permutation", t)) for t in range(tasks)]
    shown = [Task(data.x, data.y, data.x_test, data.y_test, order) for order in orders]
    return Stream(shown, classes, **scaling)


def rotated(
    data: Task, angles: Sequence[float], classes: int, interpolation: str = "bilinear", **scaling: float
) -> Stream:
    """Each task turns the (square) images by its own angle, in degrees, counter-clockwise."""
    for angle in angles:
        number("angles", angle, -math.inf)
    choice("interpolation", interpolation, INTERPOLATIONS)

    def turned(angle: float) -> Task:
        return Task(
            rotate(data.x, angle, interpolation), data.y, rotate(data.x_test, angle, interpolation), data.y_test
        )

    return Stream([turned(angle) for angle in angles], classes, **scaling)


def rotate(x: Tensor, angle: float, interpolation: str = "bilinear") -> Tensor:
    """Rows of ``x`` as square images turned about their centre, empty corners 0; uint8 stays uint8."""
    side = math.isqrt(x.shape[1])
    if side * side != x.shape[1]:
        raise ValueError(f"x must hold square images, got rows of {x.shape[1]} pixels")
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
    """Each task tells the two classes of a pair apart: the first becomes label 0, the second label 1.

    Works on any feature matrix; ``classes`` is the size of the head, which may have outputs that no task uses.
    """

    def only(x: Tensor, y: Tensor, pair: Sequence[int]) -> tuple[Tensor, Tensor]:
        chosen = (y == pair[0]) | (y == pair[1])
        return x[chosen], (y[chosen] == pair[1]).long()

    tasks = []
    for pair in pairs:
        if len(pair) != 2 or pair[0] == pair[1]:
            raise ValueError(f"pairs must hold two different classes each, got {tuple(pair)}")
        parts: list[Any] = [*only(data.x, data.y, pair), *only(data.x_test, data.y_test, pair)]
        tasks.append(Task(*parts))
    return Stream(tasks, classes, **scaling)
