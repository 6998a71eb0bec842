"""`docs/reference.md` and the code agree: nothing that there is goes unsaid, nothing that is said is not there."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import bext_workflow
from bext_workflow.checks import examine
from bext_workflow.config import reading
from bext_workflow.config.settings import Settings, Table
from bext_workflow.core import backward
from bext_workflow.core.schedules import MAX_CAUGHT_UP, ON_TIME_MS
from bext_workflow.faces.http import reading as requests
from bext_workflow.faces.http.app import MAX_BODY_BYTES
from bext_workflow.host import invoke
from bext_workflow.host.pulse import MAX_DETAIL_BYTES, RECORD_EVERY_MS
from bext_workflow.host.reading import MAX_RETRY_MS, MAX_UNDO_DATA_BYTES
from bext_workflow.model.cron import MAX_LINE
from bext_workflow.model.json import MAX_DEPTH
from bext_workflow.model.names import NAME_RULE
from bext_workflow.model.origin import MAX_NESTED
from bext_workflow.model.status import Action, IncidentKind
from bext_workflow.plugin.hooks import ARGUMENTS
from bext_workflow.ports import telemetry
from bext_workflow.service.protocols import MAX_LIMIT
from bext_workflow.service.service import MAX_KEY, MAX_TAGS
from docs.generate import OPENAPI, PARTS, REFERENCE, TABLES, openapi, renewed
from tests.docs.pages import DOCS, ROOT, blocks, codes, prose, table_after

LOG_EVENTS = {cells[0].strip("`"): cells for cells in table_after(REFERENCE, "## Log events")}
METRICS = {cells[0].strip("`"): cells for cells in table_after(REFERENCE, "## Metrics")}


def test_the_generated_parts_are_those_of_the_code() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    assert renewed(text) == text, "run python docs/generate.py"


def test_the_description_of_the_api_is_that_of_the_code() -> None:
    assert OPENAPI.read_text(encoding="utf-8") == openapi(), "run python docs/generate.py"


def test_a_part_without_a_place_is_an_error() -> None:
    with pytest.raises(ValueError, match="no place for 'config'"):
        renewed("# Reference\n")


def test_no_part_is_empty() -> None:
    assert [name for name, part in PARTS.items() if part().count("\n") < 3] == []


def test_every_table_of_the_config_is_documented() -> None:
    assert set(TABLES.values()) == set(derived(Table)) - {Settings}


def derived(table: type[Table]) -> Iterator[type[Table]]:
    """Every table of the config, those that widen another one too."""
    for child in table.__subclasses__():
        yield child
        yield from derived(child)


def test_every_key_of_the_config_says_what_it_is() -> None:
    silent = [
        f"{heading} {name}"
        for heading, table in TABLES.items()
        for name, field in table.by_key().items()
        if not field.description
    ]
    assert silent == []


def test_the_config_of_the_reference_works(tmp_path: Path) -> None:
    (text,) = (block.text for block in blocks(REFERENCE) if block.language == "toml")
    (tmp_path / "bext.config.toml").write_text(text, encoding="utf-8")
    assert [one for one in examine(tmp_path / "bext.config.toml").findings if one.severity != "info"] == []


# Log events and metrics


def test_every_log_event_is_documented_with_its_level() -> None:
    assert {event: cells[1] for event, cells in LOG_EVENTS.items()} == telemetry.LOG_LEVELS


def test_every_log_event_is_documented_with_the_fields_that_the_code_gives() -> None:
    """And every event that has a name is written somewhere."""
    assert {event: codes(cells[3]) for event, cells in LOG_EVENTS.items()} == logged()


def test_every_metric_is_documented_with_its_form_and_labels() -> None:
    documented = {metric: (cells[1], codes(cells[2])) for metric, cells in METRICS.items()}
    assert documented == {name: (form, set(labels)) for name, (form, labels) in telemetry.METRICS.items()}


def logged() -> dict[str, set[str]]:
    """The fields of every log event, as the calls `….log(names.EVENT, field=…)` in the package give them."""
    fields: dict[str, set[str]] = defaultdict(set)
    for file in (ROOT / "bext_workflow").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="log"),
                    args=[ast.Attribute(value=ast.Name(id="names"), attr=name)],
                    keywords=keywords,
                ):
                    event: str = getattr(telemetry, name)
                    given = {keyword.arg for keyword in keywords}
                    fields[event] |= {field for field in given if field is not None}
                    if None in given:  # `**bound`
                        fields[event] |= {"run_id", "workflow"}
                case _:
                    pass
    return fields


# What is written by hand


def test_every_hook_stands_in_the_plugin_guide() -> None:
    explained = {
        code.partition("(")[0]
        for cells in table_after(DOCS / "plugin-guide.md", "## Hooks")
        for code in codes(cells[0])
    }
    assert explained == set(ARGUMENTS)


def test_every_public_name_is_documented() -> None:
    told = {code for cells in table_after(REFERENCE, "### Public names") for code in codes(cells[0])}
    assert told == set(bext_workflow.__all__)


@pytest.mark.parametrize("page", ["semantics.md", "operations.md"])
def test_every_incident_and_every_answer_is_explained(page: str) -> None:
    text = prose(DOCS / page)
    missing = [word for word in (*IncidentKind, *Action) if f"`{word}`" not in text and f"--action {word} " not in text]
    assert missing == []


def test_the_bounds_that_are_not_settings() -> None:
    told = dict(table_after(REFERENCE, "### Bounds that are not settings"))
    assert told == {
        "config file": f"{reading.MAX_BYTES // 1024} KiB; a dotted key has at most {reading.MAX_KEY_PARTS} parts",
        "body of an HTTP request": f"{MAX_BODY_BYTES // 1024**2} MiB",
        "start key": f"1 to {MAX_KEY} characters",
        "`cron`": f"{MAX_LINE} characters",
        "runs in runs, sub-workflows": f"{MAX_NESTED} deep",
        'slots that `catch_up = "all"` makes up for': f"{MAX_CAUGHT_UP}, the last ones",
        "a slot counts as in time": f"for {ON_TIME_MS // 1000} s",
        "tags": f"{MAX_TAGS} a run; key and tags together 64 KiB as JSON",
        "`undo_data` of a visit": f"{MAX_UNDO_DATA_BYTES // 1024} KiB as JSON",
        "detail of a heartbeat": (
            f"{MAX_DETAIL_BYTES // 1024} KiB as JSON; written once in {RECORD_EVERY_MS // 1000} s at most"
        ),
        "`Retry.after_ms`": f"{MAX_RETRY_MS // 3_600_000} hours",
        "depth of JSON": str(MAX_DEPTH),
        "integers in JSON": "−2^63 … 2^63−1",
        "names of workflows, steps and plugins": (
            f"{NAME_RULE.replace('of the characters ', 'of `')}`; `end` cannot name a step"
        ),
        "`on_workflow_complete`": (
            f"{invoke.COMPLETION_TIMEOUT_MS // 1000} s an attempt, "
            f"{ {3: 'three'}[backward.COMPLETION_RETRIES.max_attempts] } attempts"
        ),
        "`?wait=` of `/result`": f"{requests.MAX_WAIT_MS // 1000} s count, more is cut",
        "a page of a list": f"{MAX_LIMIT} items over HTTP",
    }
