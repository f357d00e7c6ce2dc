"""One dialect of YAML for us and for DVC: plain data, in which every value means the same to both.

DVC reads YAML 1.2, PyYAML reads 1.1: 0256 is 256 to one and 174 to the other, ``yes`` is a text or a truth value. Such
values are refused; what is left are null, true, false, decimal numbers, text, lists and mappings.
"""

import re
from typing import Any

import yaml

#: No larger numbers anywhere: the product of two would leave single precision, or what a tensor can count.
MOST, MOST_WHOLE = 1e30, 10**9
#: The plain values that are not text; all other plain values must be text in YAML 1.1 and in 1.2.
PLAIN = {
    "null": re.compile(r"~|null|Null|NULL|"),
    "bool": re.compile(r"true|True|TRUE|false|False|FALSE"),
    "int": re.compile(r"[-+]?(0|[1-9][0-9]*)"),
    "float": re.compile(r"[-+]?(0|[1-9][0-9]*)(\.[0-9]*([eE][-+][0-9]+)?|[eE][-+]?[0-9]+)"),
}
LIKE_A_NUMBER = re.compile(r"[-+.]*[0-9_.][0-9_.:eE+-]*|[-+]?0([xX][0-9a-fA-F_]*|[oO][0-7_]*|[bB][01_]*)")


class ParamsError(ValueError):
    """A configuration file cannot be used; the message names the key and what to do."""


class _Loader(yaml.SafeLoader):
    """Tells plain values by the dialect's own rules, and knows neither anchors nor aliases."""

    def fetch_anchor(self) -> None:
        """Of &name and of *name."""
        raise yaml.YAMLError("anchors are not understood: write each value in its place")

    fetch_alias = fetch_anchor

    def resolve(self, kind: type[yaml.Node], value: str, implicit: Any) -> str:
        """The tag of a value that was written without one."""
        if kind is not yaml.ScalarNode:
            return "map" if kind is yaml.MappingNode else "seq"
        if not implicit[0]:
            return "str"  # in quotes
        for tag, pattern in PLAIN.items():
            if pattern.fullmatch(value):
                return tag
        other = super().resolve(kind, value, implicit) != "tag:yaml.org,2002:str"  # type: ignore[no-untyped-call]
        return "ambiguous" if other or LIKE_A_NUMBER.fullmatch(value) else "str"


class Reader:
    """The nodes of a YAML file as plain data; errors name the place."""

    DEPTH, SIZE = 20, 10**5  # the committed file has 6 levels and 9 kB

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        if len(text) > self.SIZE:
            raise ParamsError(f"{file} is larger than {self.SIZE} characters")
        self.loader = _Loader(text)

    def wrong(self, place: tuple[str, ...], what: str, node: yaml.Node | None = None) -> ParamsError:
        """An error at a key, with what is written there if that is short."""
        got = f" (got {node.value[:80]!r})" if isinstance(node, yaml.ScalarNode) else ""
        return ParamsError(f"{self.file} cannot be used:\n  {'.'.join(place) or 'top level'}: {what}{got}")

    def read(self) -> Any:
        """All of the file."""
        node = self.loader.get_single_node()
        return None if node is None else self.value(node, ())

    def value(self, node: yaml.Node, place: tuple[str, ...]) -> Any:
        """What a node holds; ``place`` are the keys above it."""
        if len(place) > self.DEPTH:
            raise self.wrong(place[:5], f"more than {self.DEPTH} levels are not understood")
        if isinstance(node, yaml.MappingNode) and node.tag == "map":
            return self.mapping(node, place)
        if isinstance(node, yaml.SequenceNode) and node.tag == "seq":
            return [self.value(part, (*place, str(number))) for number, part in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.tag in (*PLAIN, "str", "ambiguous"):
            return self.scalar(node, place)
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        raise self.wrong(place, f"{kind} is no number, text, list or mapping", node)

    def scalar(self, node: yaml.ScalarNode, place: tuple[str, ...]) -> Any:
        """A number, a text, a truth value or null."""
        text: str = node.value
        if node.tag == "ambiguous":
            finite = "must be a finite number" if text.lower().endswith((".inf", ".nan")) else ""
            advice = "YAML 1.1 and 1.2 read this differently: put text in quotes, write a number as 256 or 0.5"
            raise self.wrong(place, finite or advice, node)
        if node.tag == "str":
            if not text.isprintable():
                raise self.wrong(place, "holds a character that cannot be printed", node)
            return text
        if node.tag in ("null", "bool"):
            return None if node.tag == "null" else text.lower() == "true"
        if len(text) > 400 or not abs(float(text)) <= MOST:
            raise self.wrong(place, f"must be a finite number of at most {MOST:g}", node)
        if node.tag == "float":
            return float(text)
        if abs(int(text)) > MOST_WHOLE:
            raise self.wrong(place, f"whole numbers are at most {MOST_WHOLE} here", node)
        return int(text)

    def mapping(self, node: yaml.MappingNode, place: tuple[str, ...]) -> dict[str, Any]:
        """Keys, which are text, and values."""
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) and key.tag == "str" else ""
            if not 0 < len(name) <= 100 or not name.isprintable():
                raise self.wrong(place, "a key must be a short text, in quotes if it looks like a number", key)
            if node.flow_style and isinstance(value, yaml.ScalarNode) and value.tag == "null" and not value.value:
                raise self.wrong((*place, name), "write null, or put the text in quotes if the colon belongs to it")
            if name in found:
                raise self.wrong(place, f"the key {name!r} is written twice")
            found[name] = self.value(value, (*place, name))
        return found


def read(text: str, file: str = "params.yaml") -> Any:
    """What a YAML file holds; ParamsError if that is not plain data."""
    try:
        return Reader(text, file).read()
    except (yaml.YAMLError, RecursionError) as error:
        raise ParamsError(f"{file} is not valid YAML: {error}") from None
