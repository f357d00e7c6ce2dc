"""The generated tables in README.md."""

import re
from pathlib import Path

from pipeline.files import write_text
from pipeline.paths import README, TABLES


def with_tables(text: str, tables: Path = TABLES) -> str:
    """The text with each block between <!-- table NAME --> and <!-- end --> replaced by the generated table."""

    def fill(block: re.Match[str]) -> str:
        return f"{block[1]}\n{(tables / f'{block[2]}.md').read_text(encoding='utf-8')}<!-- end -->"

    return re.sub(r"(<!-- table (\w+) -->)\n.*?<!-- end -->", fill, text, flags=re.DOTALL)


def refresh() -> None:
    """Put the tables into README.md."""
    write_text(README, with_tables(README.read_text(encoding="utf-8")))
