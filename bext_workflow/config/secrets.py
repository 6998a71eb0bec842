"""Secrets in a config: `{ env = "NAME" }` and `{ file = "path" }`, resolved when the config is loaded.

A table with no other keys than these is a secret, at any depth. There is no templating.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, TypeGuard

from bext_workflow.errors import ConfigError
from bext_workflow.model.json import Json, JsonObject

MAX_BYTES = 65_536
MASK = "***"


def resolve(config: JsonObject, folder: Path, *, file: str, path: str) -> JsonObject:
    """The config with the secrets' values in it; paths are relative to `folder`. Raises `ConfigError`."""
    return {key: _resolved(value, folder, file, f"{path}.{key}") for key, value in config.items()}


def masked(value: Json) -> Json:
    """The value with `***` in the place of each secret."""
    if is_secret(value):
        return MASK
    match value:
        case dict():
            return {key: masked(item) for key, item in value.items()}
        case list():
            return [masked(item) for item in value]
        case _:
            return value


def is_secret(value: Json) -> TypeGuard[dict[Literal["env", "file"], Json]]:
    """Whether the value stands for one that is elsewhere."""
    return isinstance(value, dict) and bool(value) and value.keys() <= {"env", "file"}


def _resolved(value: Json, folder: Path, file: str, path: str) -> Json:
    if is_secret(value):
        try:
            return _read(value, folder)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise ConfigError(
                reason, file=file, path=path, mend='a secret is { env = "NAME" } or { file = "path" }'
            ) from None
    match value:
        case dict():
            return {key: _resolved(item, folder, file, f"{path}.{key}") for key, item in value.items()}
        case list():
            return [_resolved(item, folder, file, f"{path}[{index}]") for index, item in enumerate(value)]
        case _:
            return value


def _read(secret: dict[Literal["env", "file"], Json], folder: Path) -> str:
    """The secret's text, of a file without its last line end. Raises `OSError` or `ValueError`."""
    match secret:
        case {"env": str(name), **rest} if not rest:
            if name not in os.environ:
                raise ValueError(f"the environment variable {name} is not set")
            return os.environ[name]
        case {"file": str(name), **rest} if not rest:
            return _read_file(folder / name)
        case _:
            raise ValueError("is not one string under env or file")


def _read_file(path: Path) -> str:
    try:
        with path.open("rb") as opened:
            raw = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise ValueError(f"{path} is larger than {MAX_BYTES} bytes")
    try:
        return raw.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text") from None
