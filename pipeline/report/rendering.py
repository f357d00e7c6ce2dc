"""Markdown files as parts of the page."""

import re
from pathlib import Path

from markdown_it import MarkdownIt
from markupsafe import Markup

from pipeline.evidence.intervals import MARKS


def markdown(text: str, parts: dict[str, str]) -> Markup:
    """Markdown as HTML: headings one level down, tables that scroll, names of parts of claims as links to them.

    A link has the mark of the part's verdict, in place of the mark that the text has there.
    """
    html = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    html = re.sub(r"(</?h)(\d)>", lambda tag: f"{tag[1]}{int(tag[2]) + 1}>", html)
    html = html.replace("<table>", '<div class="scroll" tabindex="0"><table>').replace("</table>", "</table></div>")
    html = html.replace("<th>", '<th scope="col">')

    def link(code: re.Match[str]) -> str:
        if code[1] not in parts:
            return code[0]
        verdict = parts[code[1]]
        return f'<a class="part" href="#{code[1]}">{code[1]}\N{NO-BREAK SPACE}{MARKS[verdict]}</a>'

    return Markup(re.sub(rf"<code>([\w-]+)</code>(\s[{''.join(MARKS.values())}])?", link, html))


def body_of(path: Path) -> str:
    """A Markdown file without its title."""
    return path.read_text(encoding="utf-8").split("\n", 1)[1]


def section_of(path: Path, title: str) -> str:
    """A section of a Markdown file without its heading."""
    text = path.read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise ValueError(f"{path} has no section '{title}', which the page quotes")
    return found[1]
