"""`init`: a config, a plugin package and its test, ready to run; the templates stand beside this module."""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template

import tomli_w

from bext_workflow.errors import Conflict, UsageError
from bext_workflow.model.json import JsonObject

_NO_NAME = re.compile(r"[^a-z0-9]+")


def scaffold(folder: Path) -> list[Path]:
    """Writes the files into `folder`, which need not be there, and returns them.

    The plugin has the folder's name. Raises `UsageError` if that makes no name or the folder cannot be written, and
    `Conflict` if one of the files is there: then nothing is written.
    """
    name = _name_of(folder)
    texts = {folder / place: text for place, text in _contents(name, name.replace("-", "_")).items()}
    there = [str(file) for file in texts if file.exists() or file.is_symlink()]
    if there:
        raise Conflict(f"already there: {', '.join(there)}; nothing was written", mend="choose another folder")
    try:
        for file, text in texts.items():
            _write(file, text)
    except OSError as error:
        raise UsageError(
            f"{error.filename} cannot be written: {error.strerror}", mend="choose another folder"
        ) from None
    return list(texts)


def _name_of(folder: Path) -> str:
    """The plugin's name: the folder's in lower case, words joined by `-`."""
    last = folder.resolve().name
    name = _NO_NAME.sub("-", last.lower()).strip("-")
    module = name.replace("-", "_")
    if not module.isidentifier() or keyword.iskeyword(module) or len(name) > 100 or _is_taken(module):
        raise UsageError(
            f"the folder's name {last!r} makes no name for a plugin and its Python package",
            mend='begin it with a letter, and let it not be the name of a module that is there: "my-shop"',
        )
    return name


def _is_taken(module: str) -> bool:
    return module == "tests" or find_spec(module) is not None


def _contents(name: str, module: str) -> dict[str, str]:
    return {
        "bext.config.toml": _config(name),
        "pyproject.toml": tomli_w.dumps(_project(name, module)),
        f"src/{module}/__init__.py": _template("plugin", name, module),
        f"tests/test_{module}.py": _template("test", name, module),
        ".gitignore": "bext.db*\n",
    }


def _config(name: str) -> str:
    """The tables as a person would write them; alone, tomli-w would put such a short plugin on one line."""
    host = tomli_w.dumps({"host": {"store": "sqlite:bext.db", "listen": "127.0.0.1:7420"}})
    return f"{host}\n[[plugins]]\n{tomli_w.dumps({'name': name, 'source': name})}"


def _project(name: str, module: str) -> JsonObject:
    return {
        "build-system": {"requires": ["hatchling"], "build-backend": "hatchling.build"},
        "project": {
            "name": name,
            "version": "0.1.0",
            "requires-python": ">=3.11",
            "dependencies": ["bext-workflow"],
            "entry-points": {"bext_workflow": {name: f"{module}:Plugin"}},
        },
        "dependency-groups": {"dev": ["pytest"]},
        "tool": {
            "hatch": {"build": {"targets": {"wheel": {"packages": [f"src/{module}"]}}}},
            "pytest": {"ini_options": {"pythonpath": ["src"], "testpaths": ["tests"]}},
        },
    }


def _template(kind: str, name: str, module: str) -> str:
    text = files(__package__).joinpath("templates", f"{kind}.py.txt").read_text(encoding="utf-8")
    return Template(text).substitute(name=name, module=module)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("x", encoding="utf-8", newline="\n") as opened:
        opened.write(text)
