"""From pydantic's errors to ours: key path, reason and mend in the words of the config file."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from bext_workflow.config.settings import Settings, Table
from bext_workflow.errors import ConfigError

Location: TypeAlias = tuple[int | str, ...]

_KINDS = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a table",
    "model_type": "a table",
    "tuple_type": "a list",
}
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "less_than_equal": ("at most", "le"),
    "too_short": ("at least", "min_length"),
    "too_long": ("at most", "max_length"),
    "string_too_short": ("at least", "min_length"),
    "string_too_long": ("at most", "max_length"),
}
_TOML_KINDS = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "a table",
}


class ConfigProblems(ConfigError):
    """All that is wrong with a config, in the order of its keys; the message is the first one's."""

    def __init__(self, problems: Sequence[ConfigError]) -> None:
        first = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(first.reason + more, file=first.file, path=first.path, mend=first.mend)
        self.problems = tuple(problems)


def raise_any(problems: Iterable[ConfigError]) -> None:
    """Raises `ConfigProblems` if there is at least one."""
    found = tuple(problems)
    if found:
        raise ConfigProblems(found)


def translated(error: ValidationError, file: Path) -> list[ConfigError]:
    """One `ConfigError` for each of pydantic's."""
    return [_problem(details, str(file)) for details in error.errors(include_url=False) if not _is_echo(details)]


def key_path(location: Location) -> str:
    """`plugins[0].workflows[1].steps` of ("plugins", 0, "workflows", 1, "steps")."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")


def _is_echo(details: ErrorDetails) -> bool:
    """pydantic also calls a list too short of which each item was refused."""
    return details["type"] == "too_short" and bool(details["input"])


def _problem(details: ErrorDetails, file: str) -> ConfigError:
    location = details["loc"]
    reason, mend = _unknown_key(location) if details["type"] == "extra_forbidden" else _reason(details)
    return ConfigError(reason, file=file, path=key_path(location), mend=mend)


def _reason(details: ErrorDetails) -> tuple[str, str]:
    kind, given, context = details["type"], details["input"], details.get("ctx", {})
    mend = _description(details["loc"])
    if kind == "refused":
        return context["reason"], context["mend"]
    if kind == "missing":
        return "is missing", mend
    if kind in _KINDS:
        return f"is {_TOML_KINDS.get(type(given), 'a date or time')}, not {_KINDS[kind]}", mend
    if kind == "finite_number":
        return f"is {given}, not a finite number", mend
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        return f"is {_size(given)}, must be {words} {context[bound]}", mend
    return details["msg"].replace("Input should be", "must be"), mend


def _size(given: object) -> str:
    match given:
        case str() | list():
            return f"{len(given)} long"
        case int() if given.bit_length() > 64:
            return f"an integer of {given.bit_length()} bits"
        case _:
            return str(given)


def _unknown_key(location: Location) -> tuple[str, str]:
    *above, key = location
    table = _table_at(above)
    if key in table.later:
        return "is not yet supported", table.later[str(key)]
    known = list(table.by_key())
    near = difflib.get_close_matches(str(key), [*known, *table.later], n=1, cutoff=0.5)
    return "unknown key", f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}"


def _description(location: Location) -> str:
    """What the documentation says of the innermost field on the way."""
    for end in range(len(location), 0, -1):
        key = location[end - 1]
        field = _table_at(location[: end - 1]).by_key().get(key) if isinstance(key, str) else None
        if field is not None:
            return field.description or ""
    return ""


def _table_at(location: Sequence[int | str]) -> type[Table]:
    """The table that a key path leads to, or the last one on the way."""
    table: type[Table] = Settings
    for part in location:
        field = table.by_key().get(part) if isinstance(part, str) else None
        table = (_table_in(field.annotation) if field is not None else None) or table
    return table


def _table_in(annotation: object) -> type[Table] | None:
    if isinstance(annotation, type) and issubclass(annotation, Table):
        return annotation
    return next((found for part in get_args(annotation) if (found := _table_in(part)) is not None), None)
