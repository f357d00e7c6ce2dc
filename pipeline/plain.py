"""YAML as plain data: numbers, text, lists and mappings, whose errors name the place in params.yaml."""

import re
from typing import Any

import yaml

#: No larger numbers anywhere: the products of two would leave single precision, or what a tensor can count.
MOST, MOST_WHOLE = 1e30, 10**9


class ParamsError(ValueError):
    """params.yaml cannot be used; the message names the key and what to do."""


def wrong(place: tuple[str, ...], what: str) -> ParamsError:
    """An error at a key, named with the keys above it."""
    return ParamsError(f"params.yaml cannot be used:\n  {'.'.join(place) or 'top level'}: {what}")


def got(node: yaml.Node) -> str:
    """What is written there, if that is short."""
    return f" (got {node.value[:80]!r})" if isinstance(node, yaml.ScalarNode) else ""


class _Loader(yaml.SafeLoader):
    """YAML 1.1 as PyYAML reads it, with numbers like 1e-05 as numbers."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)[eE][-+]?[0-9]+$"),
    list("-+0123456789."),
)


class Reader:
    """The nodes of a YAML file as plain data: numbers, text, lists and mappings, each written where it stands."""

    DEPTH, SIZE = 20, 10**5  # of the committed file: 6 levels and 12 kB

    def __init__(self, text: str) -> None:
        if len(text) > self.SIZE:
            raise ParamsError(f"params.yaml is larger than {self.SIZE} characters")
        self.loader = _Loader(text)
        self.seen: set[int] = set()

    def read(self) -> Any:
        """All of the file."""
        node = self.loader.get_single_node()
        return None if node is None else self.value(node, ())

    def value(self, node: yaml.Node, place: tuple[str, ...]) -> Any:
        """What a node holds; ``place`` are the keys above it."""
        if id(node) in self.seen or len(place) > self.DEPTH:
            raise wrong(place[:5], "anchors and deep nesting are not understood: write each value in its place")
        self.seen.add(id(node))
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if kind == "map" and isinstance(node, yaml.MappingNode):
            return self.mapping(node, place)
        if kind == "seq" and isinstance(node, yaml.SequenceNode):
            return [self.value(part, (*place, str(number))) for number, part in enumerate(node.value)]
        if kind not in ("str", "int", "float", "bool", "null") or not isinstance(node, yaml.ScalarNode):
            raise wrong(place, f"{kind} is no number, text, list or mapping{got(node)}")
        try:
            value = self.loader.construct_object(node)
        except (ValueError, LookupError):
            raise wrong(place, f"cannot be read as {kind}{got(node)}") from None
        if isinstance(value, str) and not value.isprintable():
            raise wrong(place, f"holds a character that cannot be printed{got(node)}")
        if isinstance(value, int) and abs(value) > MOST_WHOLE:
            raise wrong(place, f"whole numbers are at most {MOST_WHOLE} here{got(node)}")
        if isinstance(value, float) and not abs(value) <= MOST:
            raise wrong(place, f"must be a finite number of at most {MOST:g}{got(node)}")
        return value

    def mapping(self, node: yaml.MappingNode, place: tuple[str, ...]) -> dict[str, Any]:
        """Keys, as they are written, and values."""
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            if not 0 < len(name) <= 100 or not name.isprintable():
                raise wrong(place, f"a key must be a short text{got(key)}")
            if name in found:
                raise wrong(place, f"the key {name!r} stands twice in one place")
            found[name] = self.value(value, (*place, name))
        return found


def read(text: str) -> Any:
    """What a YAML file holds; ParamsError if that is not plain data."""
    try:
        return Reader(text).read()
    except (yaml.YAMLError, RecursionError) as error:
        raise ParamsError(f"params.yaml is not valid YAML: {error}") from None
