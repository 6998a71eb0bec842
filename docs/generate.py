"""Writes the parts of `docs/reference.md` that the code knows best, each between its two markers;
and `docs/openapi.json`.

python docs/generate.py             write them
python docs/generate.py --check     change nothing; exit 1 if one is stale
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import get_args

import click
import msgspec
from pydantic.fields import FieldInfo

from bext_workflow.app.openapi import describe_api
from bext_workflow.checks import CODES
from bext_workflow.config.settings import (
    Approval,
    Host,
    Join,
    Limits,
    Map,
    Plugin,
    Retention,
    Retries,
    Schedule,
    Step,
    Table,
    UndoRetries,
    Wait,
    Webhooks,
    Workflow,
)
from bext_workflow.errors import BextError
from bext_workflow.faces.cli.exits import Exit, of_error, of_status
from bext_workflow.faces.cli.lazy import Lazy, LazyGroup
from bext_workflow.faces.cli.options import GLOBALS
from bext_workflow.faces.cli.tree import PROGRAM, root
from bext_workflow.faces.http.problem import TYPE_PREFIX, problem_of
from bext_workflow.model.journal import KINDS
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.model.view import (
    AuditView,
    ChangeView,
    DeliveryView,
    DriverView,
    EventView,
    FireView,
    IncidentCount,
    IncidentView,
    LiveCount,
    PluginView,
    Resolution,
    RunView,
    ScheduleView,
    SignalView,
    StatsView,
    StepView,
    TokenView,
    WaitView,
    WebhookView,
    WorkflowView,
)
from bext_workflow.plugin.hooks import ARGUMENTS
from bext_workflow.plugin.hookspecs import WorkflowPlugin
from bext_workflow.service.administration import BulkAnswer, BulkItem, CreatedToken, CreatedWebhook
from bext_workflow.service.protocols import Acknowledged, CancelPlan, Readiness

REFERENCE = Path(__file__).with_name("reference.md")
OPENAPI = Path(__file__).with_name("openapi.json")

TABLES: dict[str, type[Table]] = {
    "[host]": Host,
    "[host.limits]": Limits,
    "[host.retention]": Retention,
    "[host.webhooks]": Webhooks,
    "[[plugins]]": Plugin,
    "[[plugins.workflows]]": Workflow,
    "[[plugins.schedules]]": Schedule,
    "steps": Step,
    "wait": Wait,
    "approval": Approval,
    "join": Join,
    "map": Map,
    "retries": Retries,
    "compensation_retries": UndoRetries,
}
"""The tables of the config, by the words that head them."""

VIEWS = (
    RunView,
    StepView,
    TokenView,
    WaitView,
    SignalView,
    EventView,
    IncidentView,
    Resolution,
    WorkflowView,
    PluginView,
    ScheduleView,
    FireView,
    TokenView,
    CreatedToken,
    AuditView,
    WebhookView,
    CreatedWebhook,
    DeliveryView,
    ChangeView,
    DriverView,
    StatsView,
    LiveCount,
    IncidentCount,
    BulkAnswer,
    BulkItem,
    Acknowledged,
    CancelPlan,
    Readiness,
)


def main(arguments: Sequence[str]) -> int:
    before = REFERENCE.read_text(encoding="utf-8")
    after = renewed(before)
    if "--check" in arguments:
        stale = after != before or OPENAPI.read_text(encoding="utf-8") != openapi()
        if stale:
            sys.stderr.write("docs/reference.md or docs/openapi.json is stale: run python docs/generate.py\n")
        return int(stale)
    REFERENCE.write_text(after, encoding="utf-8")
    OPENAPI.write_text(openapi(), encoding="utf-8")
    return 0


def openapi() -> str:
    """What `bext-host openapi` prints."""
    return msgspec.json.format(msgspec.json.encode(describe_api()), indent=2).decode() + "\n"


def renewed(text: str) -> str:
    """The text with every generated part as the code has it now. Raises `ValueError` if one has no place in it."""
    for name, part in PARTS.items():
        begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
        head, found, rest = text.partition(begin)
        _, closed, tail = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"docs/reference.md has no place for {name!r}")
        text = f"{head}{begin}\n{part()}\n{end}{tail}"
    return text


# The config


def config() -> str:
    parts = []
    for heading, table in TABLES.items():
        rows = [(f"`{name}`", _type(field), _default(field), field.description or "") for name, field in _fields(table)]
        parts.append(f"### {heading}\n\n{_sentence(table)}\n\n{_table(('key', 'type', 'default', 'meaning'), rows)}")
        if table.later:
            later = "; ".join(f"`{name}` ({instead})" for name, instead in table.later.items())
            parts.append(f"Not yet supported, and refused with what to do instead: {later}.")
    return "\n\n".join(parts)


def _fields(table: type[Table]) -> Iterator[tuple[str, FieldInfo]]:
    yield from table.by_key().items()


def _type(field: FieldInfo) -> str:
    inner = _plain_type(field.annotation)
    return {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}.get(inner, inner)


def _plain_type(annotation: object) -> str:
    """`tuple` of `tuple[str, ...]`; the one real member of a union with None."""
    members = [one for one in get_args(annotation) if one is not type(None)]
    if isinstance(annotation, type) and issubclass(annotation, Table):
        return "table"
    if str(annotation).startswith("tuple["):
        return "list"
    if str(annotation).startswith("dict["):
        return "table"
    if str(annotation).startswith("typing.Annotated"):
        return _plain_type(members[0])
    if str(annotation).startswith("typing.Literal"):
        return "string"
    if members:
        return _plain_type(members[0])
    if isinstance(annotation, type):
        return annotation.__name__ if annotation in (str, int, float, bool) else "string"
    return str(annotation)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    match field.default:
        case None:
            return "–"
        case Table() as table:
            stated = table.model_dump(mode="json", exclude_unset=True)
            return ", ".join(f"`{key} = {value}`" for key, value in stated.items()) or "see below"
        case str() as text if hasattr(text, "value"):
            return f'`"{text.value}"`'
        case str() as text:
            return f'`"{text}"`' if text else '`""`'
        case bool() as flag:
            return f"`{str(flag).lower()}`"
        case tuple():
            return "`[]`"
        case number:
            return f"`{number}`"


# The command line


def cli() -> str:
    parts = [_options_table(option for option in [*root.params, *GLOBALS] if isinstance(option, click.Option))]
    for words, command in commands(root):
        context = click.Context(command, info_name=" ".join((PROGRAM, *words)))
        usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
        told = [paragraph.replace("\n", " ") for paragraph in inspect.cleandoc(command.help or "").split("\n\n")]
        own = [option for option in command.params if isinstance(option, click.Option)]
        parts.append(f"### `{' '.join(words)}`\n\n`{usage}`\n\n" + "\n\n".join(told))
        if own:
            parts.append(_options_table(own))
    return "\n\n".join(parts)


def commands(group: LazyGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with the words that call it."""
    for name, child in group.children.items():
        if isinstance(child, Lazy):
            yield (*path, name), child.load()
        else:
            yield from commands(child, (*path, name))


def _options_table(options: Iterable[click.Option]) -> str:
    return _table(("option", "variable", "meaning"), [_option_row(option) for option in options])


def _option_row(option: click.Option) -> tuple[str, str, str]:
    flags = ", ".join(f"`{flag}`" for flag in option.opts)
    default = f" Default: {option.default}." if option.show_default else ""
    needed = " Required." if option.required else ""
    return (
        f"{flags} {_takes(option)}".strip(),
        f"`{option.envvar}`" if option.envvar else "–",
        f"{option.help}{default}{needed}",
    )


def _takes(option: click.Option) -> str:
    """What must follow the option."""
    if option.is_flag or option.count:
        return ""
    if isinstance(option.type, click.Choice):
        return " / ".join(str(choice) for choice in option.type.choices)
    return option.metavar or option.type.name.upper().removesuffix(" RANGE")


def exits() -> str:
    by_code: dict[Exit, list[str]] = {code: [] for code in Exit}
    for error in errors():
        by_code[of_error(error(""))].append(f"`{error.slug}`")
    for status in WorkflowStatus:
        by_code[of_status(status)].append(status.value)
    by_code[Exit.OK].insert(0, "it worked")
    by_code[Exit.INTERRUPTED].append("Ctrl-C; a second signal to `serve`")
    by_code[Exit.USAGE].insert(0, "a command line that cannot be read")
    by_code[Exit.UNEXPECTED].insert(0, "a fault of the program")
    rows = [(str(code.value), code.name.lower().replace("_", " "), ", ".join(why)) for code, why in by_code.items()]
    return _table(("code", "name", "what leads to it"), rows)


# HTTP


def http() -> str:
    rows = []
    for path, methods in describe_api()["paths"].items():
        for method, operation in methods.items():
            query = ", ".join(f"`{one['name']}`" for one in operation.get("parameters", []) if one["in"] == "query")
            answers = ", ".join(sorted(code for code in operation["responses"] if code != "default"))
            scope = operation["x-bext-scope"]
            rows.append((f"`{method.upper()} {path}`", operation["summary"], scope, query or "–", answers))
    return _table(("method and path", "does", "scope", "query", "answers"), rows)


def views() -> str:
    rows = []
    for view in VIEWS:
        fields = ", ".join(f"`{field.encode_name}`" for field in msgspec.structs.fields(view))
        rows.append((_snake(view.__name__.removesuffix("View")).replace("_", " "), _sentence(view), fields))
    return _table(("resource", "what it is", "fields"), rows)


def problems() -> str:
    rows = []
    for error in errors():
        status = problem_of(error("")).status
        rows.append((f"`{TYPE_PREFIX}{error.slug}`", str(status), str(of_error(error("")).value), _sentence(error)))
    return _table(("type", "status", "exit code", "meaning"), rows)


def errors() -> list[type[BextError]]:
    """Every error that a person may meet, the general ones first."""
    return list(_with_descendants(BextError))


def _with_descendants(error: type[BextError]) -> Iterator[type[BextError]]:
    """Those of the package: a program may have errors of its own."""
    if error.__module__.startswith("bext_workflow."):
        if "slug" in vars(error):
            yield error
        for derived in error.__subclasses__():
            yield from _with_descendants(derived)


# Journal, hooks, findings


def events() -> str:
    rows = []
    for form, kind in KINDS.items():
        fields = ", ".join(f"`{field.encode_name}`" for field in msgspec.structs.fields(form))
        rows.append((f"`{kind}`", _sentence(form), fields or "–"))
    return _table(("kind", "meaning", "data"), rows)


def hooks() -> str:
    rows = []
    for name, arguments in ARGUMENTS.items():
        told = inspect.getdoc(getattr(WorkflowPlugin, name)) or ""
        rows.append((f"`{name}({', '.join(arguments)})`", told.replace("\n", " ")))
    return _table(("hook", "what it does"), rows)


def findings() -> str:
    rows = [(f"`{code}`", one.severity.value, one.meaning, one.mend) for code, one in CODES.items()]
    return _table(("code", "severity", "meaning", "what mends it"), rows)


PARTS: dict[str, Callable[[], str]] = {
    "config": config,
    "cli": cli,
    "exits": exits,
    "http": http,
    "views": views,
    "problems": problems,
    "events": events,
    "hooks": hooks,
    "findings": findings,
}


# Markdown


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _sentence(documented: object) -> str:
    """The docstring, as one line; names of classes stand for what a reader knows by its kind."""
    words = " ".join((inspect.getdoc(documented) or "").split())
    return re.sub(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`", lambda found: f"`{_snake(found[1])}`", words)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
