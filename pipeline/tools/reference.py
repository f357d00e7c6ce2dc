"""docs/library/reference.md: the public library, from its docstrings, its source and the `#:` comments of its fields.

Arguments, types and defaults are shown as the source has them, so that every version of Python gives the same page.
"""

import argparse
import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import noracl
from pipeline import markdown
from pipeline.files import write_text

REFERENCE = Path("docs/library/reference.md")
MODULES = ("noracl.estimator", "noracl.method.plasticity")  # public, but to be imported by their own names
HEAD = """# Reference

What the library has, by name. `python -m pipeline reference` makes this page from the docstrings: change those, and not
this page. If you are new, start with the [quick start](quick-start.md).
"""


def build() -> str:
    """The page: a list of all names, then each name with its arguments, fields, attributes and methods."""
    modules = [noracl, *map(importlib.import_module, MODULES)]
    listed = [f"- [{name}](#{name.lower()}): {summary(one)}" for part in modules for name, one in public(part).items()]
    parts = [HEAD + "\n" + "\n".join(listed)]
    for module in modules:
        parts.append(f"## from {module.__name__} import …")
        parts += [entry(name, one) for name, one in public(module).items()]
    return "\n\n".join(parts) + "\n"


def public(module: ModuleType) -> dict[str, Any]:
    """What a module exports; without a list, what it defines and does not keep to itself."""
    defined = [name for name, one in vars(module).items() if getattr(one, "__module__", "") == module.__name__]
    names = getattr(module, "__all__", [name for name in defined if not name.startswith("_")])
    return {name: getattr(module, name) for name in sorted(names, key=str.lower)}


def entry(name: str, thing: Any) -> str:
    """How a class or a function is called, what it is, and what it has."""
    parts = [f"### {name}\n{prose(documentation(thing))}"]
    made = vars(thing).get("__init__") if isinstance(thing, type) else thing
    if made is not None and not dataclasses.is_dataclass(thing):
        parts.append(f"`{signature(definition(made), name)}`")
    if isinstance(thing, type):
        found = list(members(thing))
        fields = [field(owner, node) for owner, node in found if not isinstance(node, ast.FunctionDef)]
        methods = [method(node) for _, node in found if isinstance(node, ast.FunctionDef)]
        kind = "field" if dataclasses.is_dataclass(thing) else "attribute"
        parts += [table([kind, "type", "default", "meaning"], fields)] if fields else []
        parts += ["\n".join(methods)] if methods else []
        above = [f"[{one.__name__}](#{one.__name__.lower()})" for one in thing.__mro__[1:] if exported(one)]
        parts += [f"It also has all that {' and '.join(above)} has."] if above else []
    return "\n\n".join(parts)


def exported(thing: type) -> bool:
    """Whether the page has an entry for it."""
    return getattr(noracl, thing.__name__, None) is thing


def members(thing: type) -> Iterator[tuple[type, Any]]:
    """Public fields, attributes with a `#:` comment and methods; a base that is exported tells of its own."""
    seen: set[str] = set()
    for owner in thing.__mro__:
        ours = owner.__module__.startswith("noracl.") and (owner is thing or not exported(owner))
        for node in definition(owner).body if ours else []:
            name = defined_by(node)
            told = isinstance(node, ast.FunctionDef) or dataclasses.is_dataclass(owner) or comment(owner, node)
            if name and told and not name.startswith("_") and name not in seen:
                seen.add(name)
                yield owner, node


def defined_by(node: ast.stmt) -> str:
    """The name that a statement in a class defines, if it does."""
    if isinstance(node, ast.FunctionDef):
        return node.name
    target = node.target if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [None])[0]
    return target.id if isinstance(target, ast.Name) else ""


def comment(owner: type, node: ast.stmt) -> str:
    """What the source says after `#:` in the line of a field."""
    line = source(owner).splitlines()[(node.end_lineno or 1) - 1]
    return line.partition("#:")[2].strip()


def field(owner: type, node: ast.AnnAssign | ast.Assign) -> list[str]:
    """Name, type, default and meaning of a field or an attribute."""
    kind = written(node.annotation) if isinstance(node, ast.AnnAssign) else ""
    default = re.sub(r"field\(default_factory=list\)", "[]", written(node.value) if node.value else "")
    default = re.sub(r"field\(default_factory=(\w+)\)", r"\1()", default)
    return [*(f"`{text}`" if text else "" for text in (defined_by(node), kind, default)), prose(comment(owner, node))]


def method(node: ast.FunctionDef) -> str:
    """A method or a property, as an item of a list."""
    is_property = any(isinstance(mark, ast.Name) and mark.id == "property" for mark in node.decorator_list)
    head = node.name if is_property else signature(node, node.name)
    return f"- `{head}`: " + prose(ast.get_docstring(node) or "").replace("\n\n", "\n\n  ")


def signature(node: ast.FunctionDef, name: str) -> str:
    """The arguments but self, with types and defaults, and what comes back."""
    given = node.args
    empty: list[ast.expr | None] = [None] * (len(given.args) - len(given.defaults))
    words = [argument(*pair) for pair in zip(given.args, [*empty, *given.defaults], strict=True)]
    words = [word for word in words if word not in ("self", "cls")] + ["*"] * bool(given.kwonlyargs)
    words += [argument(*pair) for pair in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    words += [f"**{argument(given.kwarg, None)}"] if given.kwarg else []
    back = written(node.returns) if node.returns else "None"
    return f"{name}({', '.join(words)})" + (f" → {back}" if back != "None" else "")


def argument(one: ast.arg, default: ast.expr | None) -> str:
    """One argument."""
    kind = f": {written(one.annotation)}" if one.annotation else ""
    return one.arg + kind + (f" = {written(default)}" if default is not None else "")


def written(node: ast.expr) -> str:
    """An expression as the source has it; the name of a class that is not defined yet stands in no quotes."""
    text = ast.unparse(node).replace("'", '"')
    return re.sub(r'^"([A-Z]\w*)"$', r"\1", text)


def summary(thing: Any) -> str:
    """The first sentence of a docstring, or the part of it before a semicolon."""
    return prose(re.split(r"\.\s(?=[A-Z`])|;\s", documentation(thing).split("\n\n")[0])[0].rstrip("."))


def documentation(thing: Any) -> str:
    """Its own docstring, not that of a base."""
    return inspect.cleandoc(vars(thing).get("__doc__") or "" if isinstance(thing, type) else thing.__doc__ or "")


def prose(text: str) -> str:
    """A docstring as Markdown: code in single ticks, asterisks as they are, examples in a block."""
    parts = []
    for paragraph in text.split("\n\n"):
        words = " ".join(paragraph.split()).split("``")
        words[::2] = [word.replace("*", "\\*") for word in words[::2]]
        parts.append(f"```pycon\n{paragraph}\n```" if paragraph.startswith(">>>") else "`".join(words))
    return "\n\n".join(parts)


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A table without the columns that are empty."""
    kept = [place for place in range(len(heads)) if any(row[place] for row in rows)]
    cells = [[row[place].replace("|", "\\|") for place in kept] for row in rows]
    return markdown.table([heads[place] for place in kept], cells).rstrip()


def definition(thing: Any) -> Any:
    """The statement that defines a class or a function."""
    return ast.parse(source(thing)).body[0]


def source(thing: Any) -> str:
    """Its source, as if it stood alone in a file."""
    return textwrap.dedent(inspect.getsource(thing))


def main(arguments: list[str]) -> None:
    """Write the page."""
    argparse.ArgumentParser(prog="python -m pipeline reference", description=__doc__).parse_args(arguments)
    write_text(REFERENCE, build())
    print(f"reference: {REFERENCE}")
