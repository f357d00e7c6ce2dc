"""Task streams of section 5: permuted, rotated and split, all domain-incremental with one shared head."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from noracl.method.checks import choice, instance, number, require, settle, shown, whole, wholes
from noracl.method.inputs import as_labels, as_matrix, as_order
from noracl.method.seeds import generator

LARGEST = torch.finfo(torch.float32).max


@dataclass(frozen=True, eq=False)
class Task:
    """Inputs and labels 0 … classes − 1, as tensors, arrays, frames or lists; the network sees x[:, columns] if set."""

    x: Tensor  #: training inputs, samples × inputs
    y: Tensor  #: training labels, one per sample
    x_test: Tensor = None  # type: ignore[assignment]  #: test inputs; None: the task is not tested
    y_test: Tensor = None  # type: ignore[assignment]  #: test labels
    columns: Tensor | None = None  #: a permutation of the inputs

    def __post_init__(self) -> None:
        tested = (self.x_test is None, self.y_test is None)
        require(tested[0] == tested[1], "x_test and y_test must both be given, or neither")
        train, test = (getattr(x, "columns", None) for x in (self.x, self.x_test))  # the names that a frame has
        named_alike = train is None or test is None or list(train) == list(test)
        require(named_alike, "x_test must have the columns of x, in the same order")
        settle(self, as_matrix, ("x",))
        settle(self, as_labels, ("y",))
        if self.x_test is None:
            object.__setattr__(self, "x_test", self.x[:0])
            object.__setattr__(self, "y_test", self.y[:0])
        settle(self, as_matrix, ("x_test",))
        settle(self, as_labels, ("y_test",))
        for x, y, part in ((self.x, self.y, ""), (self.x_test, self.y_test, "_test")):
            advice = f": of one-hot labels give y{part}.argmax(1)" if y.ndim == 2 else ""
            must = f"y{part} must hold {len(x)} labels, one per row of x{part}"
            require(y.shape == (len(x),), f"{must}, got shape {tuple(y.shape)}{advice}")
        if self.columns is not None:
            settle(self, as_order, ("columns",))

    def to(self, device: torch.device | None) -> "Task":
        """The task on a device; itself if it is there already."""
        if device is None or all(one.device == device for one in (self.x, self.y, self.x_test, self.y_test)):
            return self
        return replace(self, **{name: getattr(self, name).to(device) for name in ("x", "y", "x_test", "y_test")})

    def without_training_data(self) -> "Task":
        """What is needed to test on the task later."""
        return replace(self, x=self.x[:0], y=self.y[:0])


def check_task(
    name: str, task: Task, inputs: int, classes: int, scale: float, shift: float, tested: bool = True
) -> None:
    """Require a task that a network with these inputs and classes can learn, and be tested on if ``tested``."""
    instance(name, task, Task)
    for x, y, part in ((task.x, task.y, ""), (task.x_test, task.y_test, "_test")):
        if part and not tested and not len(x):
            continue
        x_name, y_name = f"{name}.x{part}", f"{name}.y{part}"
        require(len(x) > 0, f"{x_name} is empty: a task needs at least one sample")
        require(x.shape[1] == inputs, f"{x_name} must have {inputs} columns, got {x.shape[1]}")
        ends = (0.0, 255.0) if x.dtype == torch.uint8 else tuple(end.item() for end in x.aminmax())
        finite = all(map(math.isfinite, ends))
        require(finite, f"{x_name} holds NaN or infinite values, or values beyond ±3.4e38, the range of float32")
        scaled = [value for end in ends for value in (end * scale, end * scale + shift)]
        fits = all(abs(value) <= LARGEST for value in scaled)
        require(fits, f"{x_name} × scale + shift leaves ±3.4e38, the range of float32: choose a smaller scale")
        low, high, head = int(y.min()), int(y.max()), f"[0, {classes - 1}], the head's classes"
        require(low >= 0 and high < classes, f"{y_name} must lie in {head}, got {low} to {high}")
    permutes = task.columns is None or torch.equal(task.columns.sort()[0], torch.arange(inputs))
    require(permutes, f"{name}.columns must be a permutation of 0 … {inputs - 1}")


@dataclass(frozen=True, eq=False)
class Stream:
    """Tasks in the order of arrival, the size of the head, and the scaling x·scale + shift of the inputs."""

    tasks: Sequence[Task]  #: in the order of arrival
    classes: int  #: size of the head, which all tasks share
    scale: float = 1.0  #: the network sees x·scale + shift
    shift: float = 0.0  #: see scale

    def __post_init__(self) -> None:
        settle(self, whole, ("classes",), 2)
        settle(self, number, ("scale", "shift"), -LARGEST, LARGEST)
        several = isinstance(self.tasks, Iterable) and not isinstance(self.tasks, Task)
        require(several, f"tasks must be a list of tasks, got {type(self.tasks).__name__}: of one task give [task]")
        object.__setattr__(self, "tasks", tuple(self.tasks))
        require(len(self.tasks) > 0, "tasks must hold at least one task")
        for position, task in enumerate(self.tasks):
            name = f"tasks[{position}]"
            instance(name, task, Task)
            device = self.tasks[0].x.device
            for part in ("x", "y", "x_test", "y_test"):
                place = getattr(task, part).device
                require(place == device, f"{name}.{part} must be on {device}, as tasks[0].x is, got {place}")
            check_task(name, task, self.inputs, self.classes, self.scale, self.shift)

    @property
    def inputs(self) -> int:
        """Number of inputs of the network."""
        return self.tasks[0].x.shape[1]


def permuted(data: Task, tasks: int, classes: int, seed: int, **scaling: float) -> Stream:
    """Each task permutes the inputs at random, by the seed and its number only: a short stream starts a long one."""
    instance("data", data, Task)
    places, numbers = data.x.shape[1], range(whole("tasks", tasks, 1))
    orders = [torch.randperm(places, generator=generator(seed, "permutation", t)) for t in numbers]
    return Stream([replace(data, columns=order) for order in orders], classes, **scaling)


def rotated(
    data: Task, angles: Iterable[float], classes: int, interpolation: str = "bilinear", **scaling: float
) -> Stream:
    """Each task turns the (square) images by its own angle, in degrees, counter-clockwise."""
    instance("data", data, Task)
    require(isinstance(angles, Iterable), f"angles must be a list of degrees, got {shown(angles)}")
    degrees = [number("angles", angle, -math.inf) for angle in angles]
    choice("interpolation", interpolation, ("nearest", "bilinear"))
    turned = [[rotate(x, angle, interpolation) for x in (data.x, data.x_test)] for angle in degrees]
    return Stream([Task(x, data.y, x_test, data.y_test) for x, x_test in turned], classes, **scaling)


def rotate(x: Tensor, angle: float, interpolation: str = "bilinear") -> Tensor:
    """Rows of ``x`` as square images turned about their centre, empty corners 0; uint8 stays uint8."""
    side = math.isqrt(x.shape[1])
    require(side * side == x.shape[1], f"x must hold square images, got rows of {x.shape[1]} pixels")
    if angle % 360 == 0:
        return x
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    matrix = torch.tensor([[[cos, -sin, 0.0], [sin, cos, 0.0]]], dtype=torch.float32)
    grid = torch.nn.functional.affine_grid(matrix, [1, 1, side, side], align_corners=False).to(x.device)
    turned = torch.empty_like(x)
    for start in range(0, len(x), 4096):  # images as channels of one picture: one grid for all
        part = x[start : start + 4096].float().view(1, -1, side, side)
        out = torch.nn.functional.grid_sample(part, grid, mode=interpolation, align_corners=False).view(-1, side**2)
        turned[start : start + 4096] = out.round_().to(x.dtype) if x.dtype == torch.uint8 else out
    return turned


def split(data: Task, pairs: Iterable[Sequence[int]], classes: int = 2, **scaling: float) -> Stream:
    """Each task tells the two classes of a pair apart, as labels 0 and 1; the head may have outputs that none uses."""
    instance("data", data, Task)
    require(isinstance(pairs, Iterable), f"pairs must be a list of pairs of classes, got {shown(pairs)}")
    tasks = []
    for pair in (wholes("pairs", given, 0) for given in pairs):
        different = len(pair) == 2 and pair[0] != pair[1]
        require(different, f"pairs must hold two different classes each, got {pair}")
        rows: list[Tensor] = []
        for x, y in ((data.x, data.y), (data.x_test, data.y_test)):
            chosen = (y == pair[0]) | (y == pair[1])
            rows += [x[chosen], (y[chosen] == pair[1]).long()]
        tasks.append(Task(*rows))
    return Stream(tasks, classes, **scaling)
