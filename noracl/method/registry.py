"""Parts that are chosen by name: each lives in its own file and registers itself when its folder is loaded."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from noracl.method.checks import choice, require, shown

Part = TypeVar("Part")


class Registry(dict[str, Part]):
    """Parts by name; ``kind`` is what the settings call them, and ``make`` turns what people write into a part.

    ``options`` are given to ``make`` for parts that were not registered.
    """

    def __init__(self, kind: str, make: Callable[..., Part] = lambda part: part, **options: Any) -> None:
        super().__init__()
        self.kind, self.make, self.options = kind, make, options

    def register(self, name: str, **options: Any) -> Callable[[Any], Any]:
        """A decorator that makes a class or a function known under a name that no other part has."""

        def decorate(decorated: Any) -> Any:
            if name in self:
                raise ValueError(f"{self.kind} {name!r} is already registered")
            self[name] = self.make(decorated, **options)
            return decorated

        return decorate

    def find(self, given: Any) -> Part:
        """The part of a registered name, or made of a class, a function or an object of one's own."""
        if isinstance(given, str):
            choice(self.kind, given, self)
            return self[given]
        own = callable(given) or hasattr(given, "after_epoch")
        require(own, f"{self.kind} must be one of {', '.join(self)}, a class or a function, got {shown(given)}")
        return self.make(given, **self.options)


def load_folder(package: str, path: Iterable[str]) -> None:
    """Import every module of a package, so that its parts register themselves."""
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")
