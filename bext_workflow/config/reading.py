"""The text of the config file and the TOML in it: every way in which that can go wrong is one `ConfigError`."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

from bext_workflow.errors import ConfigError
from bext_workflow.model.json import JsonObject

FILE_NAME = "bext.config.toml"
MAX_BYTES = 262_144

MAX_KEY_PARTS = 100
_PART = r"""(?:[\w\-]++|"[^"\n]*+"|'[^'\n]*+')"""
_ENDLESS_KEY = re.compile(rf"(?<![\w\-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MAX_KEY_PARTS}}}")
"""A dotted key, or text that looks like one: tomllib takes time and memory by the square of its parts."""

_HEADER = re.compile(r"^\s*\[\[?\s*plugins\s*(\.[^\]]*)?\]", re.MULTILINE)


def find_config(start: Path) -> Path | None:
    """The nearest bext.config.toml, in `start` or a folder above it."""
    start = start.absolute()
    return next((file for folder in (start, *start.parents) if (file := folder / FILE_NAME).exists()), None)


def choose_config(path: Path | None) -> Path:
    """`path`, else what BEXT_CONFIG names, else the nearest file. Raises `ConfigError` if there is none."""
    named = path or (Path(os.environ["BEXT_CONFIG"]) if os.environ.get("BEXT_CONFIG") else None)
    found = named or find_config(Path.cwd())
    if found is None:
        raise ConfigError(
            f"no {FILE_NAME} here or in a folder above",
            mend="`bext-host init` writes one; -c names another file",
        )
    return found.absolute()


def read_toml(file: Path) -> JsonObject:
    """The tables of the file, unchecked. Raises `ConfigError`."""
    text = _read_text(file)
    if _ENDLESS_KEY.search(text):
        raise ConfigError(
            f"a dotted key of more than {MAX_KEY_PARTS} parts", file=str(file), mend="write the tables as [tables]"
        )
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError("nested too deep", file=str(file), mend="write long lists as [[tables]]") from None
    except ValueError as error:
        if _plugin_table_first(text):
            raise wrong_nesting(file) from None
        raise ConfigError(f"not TOML: {error}", file=str(file), mend="correct the text at that place") from None


def wrong_nesting(file: Path) -> ConfigError:
    """The error for `[[plugins.workflows]]` before, or without, the `[[plugins]]` that it belongs to."""
    return ConfigError(
        "the tables of plugins do not begin with [[plugins]]",
        file=str(file),
        path="plugins",
        mend="begin each plugin with [[plugins]] and its name, then its [[plugins.workflows]] and [plugins.config]",
    )


def _read_text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError("there is no such file", file=str(file), mend="`bext-host init` writes one") from None
    except IsADirectoryError:
        raise ConfigError("is a folder", file=str(file), mend=f"name the file in it, {FILE_NAME}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"cannot be read: {reason}", file=str(file), mend="check the path and its rights") from None
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"larger than {MAX_BYTES} bytes", file=str(file), mend="a config holds settings, not data")
    if raw.startswith(b"\xef\xbb\xbf"):
        raise ConfigError("begins with a byte order mark", file=str(file), mend="save it as UTF-8 without BOM")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"not UTF-8 text: byte 0x{raw[error.start]:02x} at offset {error.start}",
            file=str(file),
            mend="save it as UTF-8",
        ) from None


def _plugin_table_first(text: str) -> bool:
    header = _HEADER.search(text)
    return header is not None and bool(header[1])
