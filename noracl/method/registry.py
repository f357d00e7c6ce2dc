"""Parts that are chosen by name: each lives in its own file and registers itself when its folder is loaded."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Part = TypeVar("Part")


class Registry(dict[str, Part]):
    """Parts by name; ``kind`` is what the settings call them, and ``make`` turns what is decorated into a part."""

    def __init__(self, kind: str, make: Callable[..., Part] = lambda part: part) -> None:
        super().__init__()
        self.kind, self.make = kind, make

    def register(self, name: str, **options: Any) -> Callable[[Any], Any]:
        """A decorator that makes a class or a function known under a name that no other part has."""

        def decorate(decorated: Any) -> Any:
            if name in self:
                raise ValueError(f"{self.kind} {name!r} is already registered")
            self[name] = self.make(decorated, **options)
            return decorated

        return decorate


def load_folder(package: str, path: Iterable[str]) -> None:
    """Import every module of a package, so that its parts register themselves."""
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")
