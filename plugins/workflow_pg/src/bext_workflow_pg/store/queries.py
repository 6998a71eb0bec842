"""SQL by name: the files of `sql/`, each a list of `-- name: …` sections."""

from __future__ import annotations

import re
from pathlib import Path

_FOLDER = Path(__file__).parent / "sql"
_SECTION = re.compile(r"^-- name: (\w+)\n(.*?);$", re.MULTILINE | re.DOTALL)


def load(file: str) -> dict[str, str]:
    """The statements of one file by their names."""
    return dict(_SECTION.findall((_FOLDER / file).read_text(encoding="utf-8")))
