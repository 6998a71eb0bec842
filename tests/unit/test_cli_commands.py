"""How commands read their line and what they make of the answer; the service is `cli_support`'s."""

from __future__ import annotations

import io
import json
import stat
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from bext_workflow import errors
from bext_workflow.faces.cli import cells
from bext_workflow.faces.cli.main import run
from bext_workflow.model.json import JsonObject
from bext_workflow.model.origin import ForkedFrom
from bext_workflow.model.status import Action, Call, IncidentKind, WorkflowStatus
from bext_workflow.model.view import RunView, StepView
from bext_workflow.model.webhook import DeliveryState, WebhookEvent
from bext_workflow.service.administration import AuditQuery, DeliveryQuery, TokenRequest, WebhookRequest
from bext_workflow.service.health import Checked, Health
from bext_workflow.service.proof import ProofOptions
from bext_workflow.service.protocols import (
    CancelRequest,
    CompleteRequest,
    DecideRequest,
    ForkRequest,
    ResolveRequest,
    RunQuery,
    SignalRequest,
    StartRequest,
)
from bext_workflow.service.wiring import Change, Finding, Severity, VersionPlan
from tests.unit.cli_support import (
    APPROVAL,
    BROKEN,
    INCIDENT,
    PAUSED_RUN,
    PROOF,
    RUN,
    STEP,
    STORE,
    WAIT,
    WAITING,
    Shelf,
    ShelfWiring,
    event,
)

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "URL", "OUTPUT", "QUIET", "VERBOSE", "YES", "LISTEN"):
        monkeypatch.delenv(f"BEXT_{name}", raising=False)
    monkeypatch.delenv("UV_RUN_RECURSION_DEPTH", raising=False)


def call(shelf: Shelf, *words: str) -> int:
    return run(lambda: ShelfWiring(shelf), words)


def started(shelf: Shelf) -> StartRequest:
    (request,) = shelf.asked
    assert isinstance(request, StartRequest)
    return request


def ended(status: WorkflowStatus) -> Shelf:
    return Shelf(msgspec.structs.replace(RUN, status=status))


def test_a_start_carries_all_that_was_said() -> None:
    shelf = Shelf()
    words = ["--input", '{"a": {"b": 1}}', "--set", "a.c=x", "--set", "d=2", "--key", "k", "--tag", "t=v"]

    assert call(shelf, "runs", "start", "checkout@2", *words) == 0
    assert started(shelf) == StartRequest(
        workflow="checkout", version=2, context={"a": {"b": 1, "c": "x"}, "d": 2}, tags={"t": "v"}, key="k"
    )


def test_run_is_runs() -> None:
    shelf = Shelf()
    assert call(shelf, "run", "start", "checkout") == 0
    assert started(shelf).version is None


@pytest.mark.parametrize(
    ("words", "waited"),
    [
        (["--wait"], [None]),
        (["--wait=30s"], [30_000]),
        (["--wait", "500ms"], [500]),
        (["--watch"], [None]),
        (["--watch", "--wait=1m"], [60_000]),
        ([], []),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_wait_takes_a_duration_and_nothing_else(words: list[str], waited: list[int | None], first: bool) -> None:
    shelf = Shelf()
    line = [*words, "checkout"] if first else ["checkout", *words]

    assert call(shelf, "runs", "start", *line) == 0
    assert shelf.waited == waited


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("COMPLETED", 0),
        ("COMPENSATED", 10),
        ("FAILED", 11),
        ("CANCELLED", 12),
        ("RUNNING", 13),
        ("WAITING", 13),
        ("SUSPENDED", 14),
    ],
)
@pytest.mark.parametrize(
    ("words", "waits"),
    [
        (["runs", "start", "checkout", "--wait=1ms"], True),
        (["runs", "start", "checkout", "--watch"], True),
        (["runs", "result", "0193"], True),
        (["runs", "result", "0193", "--wait=0s"], True),
        (["runs", "start", "checkout"], False),
        (["runs", "show", "0193"], False),
    ],
)
def test_the_exit_code_tells_how_it_went_where_a_command_waits(
    words: list[str], waits: bool, status: str, code: int
) -> None:
    assert call(ended(WorkflowStatus(status)), *words) == (code if waits else 0)


@pytest.mark.parametrize("status", ["COMPLETED", "SUSPENDED", "WAITING"])
def test_result_waits_on_while_the_run_goes_on(status: str) -> None:
    running = msgspec.structs.replace(RUN, status=WorkflowStatus.RUNNING)
    shelf = Shelf(running, running, msgspec.structs.replace(RUN, status=WorkflowStatus(status)))

    call(shelf, "runs", "result", "0193", "--wait")
    assert len(shelf.waited) == 3


def test_a_watched_start_tells_while_the_run_is_driven(capfd: Captured) -> None:
    shelf = Shelf()
    shelf.journal = [event(1, "step_completed", step="reserve", updates={"a": 1})]

    assert call(shelf, "runs", "start", "checkout", "--watch") == 0
    run_line, event_line = capfd.readouterr().err.splitlines()
    assert run_line == f"run {RUN.run_id}"
    assert event_line.endswith("✓  step completed  reserve  sets a")


def test_watch_tells_each_event_once_and_ends_with_the_run(capfd: Captured) -> None:
    shelf = Shelf(msgspec.structs.replace(RUN, status=WorkflowStatus.SUSPENDED), RUN)
    shelf.journal = [
        event(1, "run_created"),
        event(2, "attempt_failed", step="reserve", visit=2, attempt=2, reason="no\x1b[2J answer", retry_at=0),
        event(3, "run_completed"),
    ]

    assert call(shelf, "runs", "watch", "0193") == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["status"] == "COMPLETED"
    assert [line.split("  ", 1)[1].split(" · again")[0] for line in err.splitlines()] == [
        "·  run created",
        "↻  attempt failed  reserve #2  attempt 2 · no answer",
        "✓  run completed",
    ]


def test_a_run_that_nothing_drives_is_said_to_be_so(capfd: Captured) -> None:
    call(Shelf(driven=False), "runs", "start", "checkout")
    assert capfd.readouterr().err == "no host drives this store: run `bext-host serve`, or use --wait\n"
    call(Shelf(driven=False), "runs", "start", "checkout", "--wait")
    assert "no host" not in capfd.readouterr().err
    call(Shelf(driven=False), "runs", "cancel", "0193")
    assert capfd.readouterr().err.startswith("no host drives this store: run `bext-host serve`")


@pytest.mark.parametrize(
    "words",
    [
        ["-o", "jsonl", "runs", "list"],
        ["runs", "-o", "jsonl", "list"],
        ["runs", "list", "-o", "jsonl"],
        ["-o", "table", "runs", "list", "-o", "jsonl"],
    ],
)
def test_global_options_stand_anywhere_and_the_last_wins(words: list[str], capfd: Captured) -> None:
    assert call(Shelf(), *words) == 0
    assert json.loads(capfd.readouterr().out)["run_id"] == RUN.run_id


def test_what_is_typed_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch, capfd: Captured) -> None:
    monkeypatch.setenv("BEXT_OUTPUT", "jsonl")
    call(Shelf(), "runs", "list")
    assert capfd.readouterr().out.startswith('{"run_id"')
    call(Shelf(), "-o", "json", "runs", "list")
    assert json.loads(capfd.readouterr().out)["items"][0]["run_id"] == RUN.run_id


def test_a_target_is_what_the_options_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEXT_URL", "http://there")
    wiring = ShelfWiring(Shelf())
    run(lambda: wiring, ["-c", "x.toml", "runs", "show", "0193"])

    (target,) = wiring.targets
    assert (target.config, target.url) == (Path("x.toml"), "http://there")


def test_a_token_is_taken_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    wiring = ShelfWiring(Shelf())
    monkeypatch.setenv("BEXT_TOKEN", "bext_env")
    run(lambda: wiring, ["runs", "show", "0193", "--url", "http://there"])
    run(lambda: wiring, ["runs", "show", "0193", "--url", "http://there", "--token", "bext_typed"])

    assert [target.token for target in wiring.targets] == ["bext_env", "bext_typed"]


def test_a_token_is_shown_once_with_what_it_may(capfd: Captured) -> None:
    shelf = Shelf()
    words = ["tokens", "create", "ci", "--scope", "view", "--scope", "start:*", "--role", "finance", "--expires", "2h"]
    assert call(shelf, *words, "--reason", "for the build") == 0
    told = capfd.readouterr()
    assert json.loads(told.out)["token"] == "bext_text"
    assert "cannot be shown again" in told.err
    assert call(shelf, "-o", "table", "tokens", "create", "ci", "--scope", "view") == 0
    assert "bext_text" in capfd.readouterr().out
    assert call(shelf, "tokens", "create", "ci", "--scope", "view", "--no-expiry") == 0

    wanted = TokenRequest(
        name="ci", scopes=["view", "start:*"], roles=["finance"], expires_in_ms=7_200_000, reason="for the build"
    )
    bare = TokenRequest(name="ci", scopes=["view"])
    assert shelf.asked == [wanted, bare, replace(bare, expires_in_ms=None)]


@pytest.mark.parametrize(
    "words", [["ci"], ["--scope", "a"], ["c", "--scope", "view", "--expires", "1h", "--no-expiry"]]
)
def test_what_makes_no_token(words: list[str]) -> None:
    assert call(Shelf(), "tokens", "create", *words) == 2


def test_the_description_of_the_api_is_printed(capfd: Captured) -> None:
    assert call(Shelf(), "openapi") == 0
    assert json.loads(capfd.readouterr().out) == {"openapi": "3.1.0", "paths": {}}


def test_hosts_are_listed_with_what_they_drive(capfd: Captured) -> None:
    assert call(Shelf(), "-o", "table", "hosts", "list") == 0
    out = " ".join(capfd.readouterr().out.split())
    assert "host-a shop-1 4711" in out
    assert call(Shelf(), "hosts", "list") == 0
    assert [host["only"] for host in json.loads(capfd.readouterr().out)["items"]] == [None, RUN.run_id]


def test_the_audit_is_listed_and_exported(capfd: Captured) -> None:
    shelf = Shelf()
    words = ["--run", "0193", "--by", "token:ci", "--act", "run.cancel", "--since", "2026-11-30T00:00:00Z"]
    assert call(shelf, "-o", "table", "audit", "list", *words, "--limit", "1") == 0
    told = capfd.readouterr()
    assert "token:ci" in told.out
    assert "there is more: --cursor 1" in told.err

    assert call(shelf, "audit", "export", *words) == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [(line["id"], line["reason"]) for line in lines] == [(1, "Ω"), (2, "Ω")]

    wanted = AuditQuery(run_id="0193", by="token:ci", act="run.cancel", since="2026-11-30T00:00:00.000Z")
    exported = replace(wanted, oldest_first=True, limit=500)
    assert shelf.asked == [replace(wanted, limit=1), exported, replace(exported, cursor="1")]


def test_webhooks_are_made_listed_and_removed(capfd: Captured) -> None:
    shelf = Shelf()
    words = ["https://hooks.example/", "--event", "run.failed", "--workflow", "checkout", "--reason", "shop"]
    assert call(shelf, "webhooks", "create", *words) == 0
    told = capfd.readouterr()
    assert json.loads(told.out)["secret"] == "whsec_c2VjcmV0"
    assert "cannot be shown again" in told.err
    assert call(shelf, "-o", "table", "webhooks", "create", "https://hooks.example/") == 0
    assert "whsec_c2VjcmV0" in capfd.readouterr().out
    assert call(shelf, "-o", "table", "webhooks", "list") == 0
    assert "(removed)" in capfd.readouterr().out
    assert call(shelf, "webhooks", "remove", "0193", "--reason", "moved") == 0

    bare = WebhookRequest(url="https://hooks.example/")
    made = replace(bare, events=[WebhookEvent.RUN_FAILED], workflows=["checkout"], reason="shop")
    assert shelf.asked == [made, bare, "webhooks", ("0193", "moved")]


def test_deliveries_are_listed_and_sent_again(capfd: Captured) -> None:
    shelf = Shelf()
    words = ["--webhook", "0193", "--run", RUN.run_id, "--state", "failed", "--limit", "9"]
    assert call(shelf, "-o", "table", "webhooks", "deliveries", *words) == 0
    line = capfd.readouterr().out
    assert "run.failed" in line
    assert "it was answered 500" in line
    assert call(shelf, "webhooks", "redeliver", "0193", "--reason", "it is back") == 0
    assert shelf.asked == [
        DeliveryQuery(webhook_id="0193", run_id=RUN.run_id, state=DeliveryState.FAILED, limit=9),
        ("0193", "it is back"),
    ]


def test_tokens_are_listed_and_revoked(capfd: Captured) -> None:
    shelf = Shelf()
    assert call(shelf, "-o", "table", "tokens", "list") == 0
    line = capfd.readouterr().out.splitlines()[-1]
    assert line.split()[:2] == ["ci", "active"]
    assert "start:checkout, view" in line
    assert call(shelf, "tokens", "revoke", "ci", "--reason", "it leaked") == 0
    assert json.loads(capfd.readouterr().out)["state"] == "revoked"
    assert shelf.asked == ["tokens", ("ci", "it leaked")]


@pytest.mark.parametrize("words", [["serve"], ["check"], ["config", "show"]])
def test_what_works_on_this_machine_refuses_a_url(words: list[str], capfd: Captured) -> None:
    assert call(Shelf(), "--url", "http://there", *words) == 2
    assert "leave --url (BEXT_URL) out" in capfd.readouterr().err


def test_a_list_asks_for_what_was_said_and_turns_the_pages() -> None:
    shelf = Shelf(*[RUN] * 700)
    words = ["--workflow", "checkout@2", "--status", "failed", "--status", "RUNNING", "--tag", "a=b"]

    assert call(shelf, "runs", "list", "--limit", "600", "--incident", "in_doubt", *words) == 0
    first, second = (query for query in shelf.asked if isinstance(query, RunQuery))
    assert (first.workflow, first.version, first.tags, first.limit) == ("checkout", 2, {"a": "b"}, 500)
    assert first.status == (WorkflowStatus.FAILED, WorkflowStatus.RUNNING)
    assert (second.limit, second.cursor) == (100, "500")


def test_words_to_choose_from_are_shown_as_they_are_and_taken_in_any_case(capfd: Captured) -> None:
    assert call(Shelf(), "runs", "list", "--help") == 0
    assert "[PENDING|RUNNING|" in capfd.readouterr().out
    assert call(Shelf(), "runs", "list", "--status", "done") == 2
    assert "'done' is not one of 'PENDING', 'RUNNING'" in capfd.readouterr().err
    assert call(Shelf(), "incidents", "resolve", "i-1", "--note", "n") == 2
    assert "Missing option '--action'. Choose from done, not_done" in capfd.readouterr().err
    for status in ("failed", "Failed", "FAILED"):
        shelf = Shelf()
        assert call(shelf, "runs", "list", "--status", status) == 0
        assert [query.status for query in shelf.asked if isinstance(query, RunQuery)] == [(WorkflowStatus.FAILED,)]


def test_events_are_all_of_them_unless_a_limit_is_set(capfd: Captured) -> None:
    shelf = Shelf()
    shelf.journal = [event(seq, "attempt_started") for seq in range(1, 1201)]

    call(shelf, "runs", "events", "0193")
    page = json.loads(capfd.readouterr().out)
    assert (len(page["items"]), page["next_cursor"]) == (1200, None)
    call(shelf, "runs", "events", "0193", "--after", "10", "--limit", "2")
    page = json.loads(capfd.readouterr().out)
    assert ([item["seq"] for item in page["items"]], page["next_cursor"]) == ([11, 12], "12")


def test_a_cancel_carries_all_that_was_said() -> None:
    shelf = Shelf()
    assert call(shelf, "runs", "cancel", "0193", "--reason", "why", "--no-compensate", "--now", "--yes") == 0
    assert shelf.asked == [CancelRequest(reason="why", compensate=False, now=True)]


def test_cancel_now_is_never_done_unasked(capfd: Captured) -> None:
    shelf = Shelf()
    assert call(shelf, "runs", "cancel", "0193", "--now") == 2
    err = capfd.readouterr().err
    assert "whether it has acted will be unknown" in err
    assert "add --yes" in err
    assert not shelf.asked


@pytest.mark.parametrize(("answer", "code", "acts"), [("y", 0, 1), ("n", 130, 0), ("", 130, 0)])
def test_cancel_now_asks_a_person(answer: str, code: int, acts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    shelf = Shelf()

    assert call(shelf, "runs", "cancel", "0193", "--now") == code
    assert len(shelf.asked) == acts


def test_a_dry_run_prints_the_plan(capfd: Captured) -> None:
    shelf = Shelf()
    assert call(shelf, "runs", "cancel", "0193", "--dry-run", "--now") == 0
    assert json.loads(capfd.readouterr().out)["undo"] == ["charge", "reserve"]


def test_a_signal_carries_all_that_was_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p.json").write_text('[1, 2.0, "é"]', encoding="utf-8")
    monkeypatch.setattr("sys.stdin", io.StringIO("null"))
    shelf = Shelf()

    for words in (["--payload", '{"by": "ada"}', "--id", "s-1"], ["--payload", f"@{tmp_path}/p.json"], ["--payload=-"]):
        assert call(shelf, "runs", "signal", "0193", "approved", *words) == 0
    assert call(shelf, "run", "signal", "0193", "approved") == 0
    assert shelf.asked == [
        SignalRequest(name="approved", payload={"by": "ada"}, id="s-1"),
        SignalRequest(name="approved", payload=[1, 2.0, "é"]),
        SignalRequest(name="approved"),
        SignalRequest(name="approved"),
    ]


@pytest.mark.parametrize("act", ["pause", "resume"])
def test_a_hold_carries_its_reason(act: str, capfd: Captured) -> None:
    shelf = Shelf()
    assert call(shelf, "runs", act, "0193", "--reason", "audit") == 0
    assert shelf.asked == ["audit"]
    assert json.loads(capfd.readouterr().out) == {"run_id": "0193", "act": act, "driven": True}


def test_an_answer_carries_all_that_was_said() -> None:
    shelf = Shelf()
    words = ["--action", "done", "--note", "n", "--updates", '{"a": 1}', "--next", "end", "--undo-data", "[1]"]

    assert call(shelf, "incidents", "resolve", "0193", *words) == 0
    assert shelf.asked == [
        ResolveRequest(action=Action.DONE, note="n", context_updates={"a": 1}, next="end", undo_data=[1])
    ]


def test_a_card_shows_what_to_type_next(capfd: Captured) -> None:
    failed = msgspec.structs.replace(RUN, status=WorkflowStatus.FAILED, failure="mail bounced")
    shelf = Shelf(failed)
    shelf.incidents = [INCIDENT]

    call(shelf, "-c", "my folder/x.toml", "-o", "table", "runs", "show", "0193")

    out = capfd.readouterr().out
    assert "mail bounced" in out
    line = f"bext-host -c 'my folder/x.toml' incidents resolve {INCIDENT.id} --action retry --note '…'"
    assert f"  try again from exactly there:\n    {line}\n" in out


def test_a_card_shows_the_parent_of_a_run_and_the_runs_that_its_steps_are(capfd: Captured) -> None:
    steps = [msgspec.structs.replace(STEP, step="ship", visit=2, child="0193-child")]
    call(Shelf(msgspec.structs.replace(RUN, parent="0193-parent", steps=steps)), "-o", "table", "runs", "show", "0193")

    lines = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert ["parent", "0193-parent"] in lines
    assert lines[lines.index(["Sub-workflows"]) + 1] == ["ship", "#2", "0193-child"]


def test_a_card_shows_what_the_run_waits_for_and_what_to_type(capfd: Captured) -> None:
    call(Shelf(WAITING), "-c", "x.toml", "-o", "table", "runs", "show", "0193")

    out = capfd.readouterr().out
    at = cells.moment(WAITING.created_at).text
    assert f"It waits at approve #2 for signal approved, until {at}, since {at}\n" in out
    assert f"  send it:\n    bext-host -c x.toml runs signal {RUN.run_id} approved --payload '{{}}'\n" in out
    late, paid = (line.split() for line in out.splitlines() if " late " in line or " kept " in line)
    assert (late[:2], late[-2:]) == (["approved", "late"], ["s-1", f'"{"y" * 119}…'])
    assert paid[-2:] == ["–", '{"by":"\\u001b[2Jada"}']


def test_what_only_time_ends_has_nothing_to_type(capfd: Captured) -> None:
    sleeping = msgspec.structs.replace(WAITING, waits=[msgspec.structs.replace(WAIT, signal=None, visit=1)])
    call(Shelf(sleeping), "-o", "table", "runs", "show", "0193")

    out = capfd.readouterr().out
    assert "It waits at approve until " in out
    assert "runs signal" not in out


def test_a_card_of_a_paused_run_says_how_it_goes_on(capfd: Captured) -> None:
    call(Shelf(PAUSED_RUN), "-o", "table", "runs", "show", "0193")

    assert f"It is paused\n  let it go on:\n    bext-host runs resume {RUN.run_id} --reason '…'\n" in (
        capfd.readouterr().out
    )


def test_watch_of_a_run_that_has_just_been_set_going_again_follows_it(capfd: Captured) -> None:
    status = WorkflowStatus
    shelf = Shelf(*(msgspec.structs.replace(RUN, status=one) for one in (status.FAILED, status.RUNNING)), RUN)
    shelf.journal = [event(1, "run_reopened"), event(2, "run_completed")]

    assert call(shelf, "runs", "watch", "0193") == 0
    assert json.loads(capfd.readouterr().out)["status"] == "COMPLETED"


@pytest.mark.parametrize(("change", "code", "end"), [(Change.POLICY, 0, "takes"), (Change.GRAPH, 3, "refuses")])
def test_a_plan_says_what_a_config_means(change: Change, code: int, end: str, capfd: Captured) -> None:
    shelf = Shelf()
    shelf.plans = [VersionPlan(workflow="order", version=1, live=2, change=change, lines=["timeout_ms was 0; it is 9"])]
    assert call(shelf, "-o", "table", "plan") == code
    out = capfd.readouterr().out
    assert "order@1" in out
    assert "2 live runs" in out
    assert "timeout_ms was 0; it is 9" in out
    assert f"serve {end} this config" in out
    assert call(shelf, "-o", "json", "plan") == code
    assert json.loads(capfd.readouterr().out)["refused"] is (code == 3)


@pytest.mark.parametrize(
    ("change", "one", "two"),
    [
        (Change.POLICY, "1 live run takes this up with its", "2 live runs take this up with their"),
        (Change.GRAPH, "until it has ended", "until they have ended"),
        (Change.UNSERVED, "1 live run waits", "2 live runs wait"),
    ],
)
def test_a_plan_counts_runs_in_plain_words(change: Change, one: str, two: str, capfd: Captured) -> None:
    for live, words in ((1, one), (2, two)):
        shelf = Shelf()
        shelf.plans = [VersionPlan(workflow="order", version=1, live=live, change=change)]
        call(shelf, "-o", "table", "plan")
        assert words in capfd.readouterr().out


def test_the_events_say_what_other_policy_has_moved(capfd: Captured) -> None:
    shelf = Shelf()
    shelf.journal = [event(1, "policy_changed", policy="p-2", changes=["timeout_ms was 0; it is 9"])]
    call(shelf, "-o", "table", "runs", "events", "0193")
    assert "timeout_ms was 0; it is 9" in capfd.readouterr().out


def test_a_proof_that_holds(capfd: Captured) -> None:
    wiring = ShelfWiring(Shelf())
    assert run(lambda: wiring, ["-o", "table", "prove", "order@2", "--budget", "3", "--replay", "mug"]) == 0
    assert wiring.proved == [("order", 2, ProofOptions(budget=3, replay="mug"))]
    out = capfd.readouterr().out
    for words in (
        "order@2 holds",
        "mug: pack → ship",
        "45 runs in 1.2 s",
        "2 steps × 13 faults - 1 without a time-out = 25",
        "pairs of faults: 3 of 90",
        "1 of 2 effects, 50 %",
        "never undone: ship: van",
        "to stay: mail",
    ):
        assert words in out


def test_a_proof_that_does_not_hold(capfd: Captured) -> None:
    shelf = Shelf()
    shelf.proof = replace(PROOF, broken=[BROKEN])
    assert call(shelf, "-o", "table", "prove", "order@2") == 3
    out = capfd.readouterr().out
    assert "order@2 does not hold: 1 broken promise\n" in out
    assert "left-behind: ship van is done and not undone\n" in out
    assert "  durable  run compensated\n" in out
    assert "bext-host prove order@2 --replay mug@ship=cancel" in out
    assert call(shelf, "-o", "json", "prove", "order@2") == 3
    assert json.loads(capfd.readouterr().out)["broken"][0]["case"] == "mug@ship=cancel"


@pytest.mark.parametrize(("mark", "code"), [("50", 0), ("50.1", 3)])
def test_a_proof_whose_coverage_is_under_the_mark(mark: str, code: int, capfd: Captured) -> None:
    assert call(Shelf(), "prove", "order", "--fail-under", mark) == code
    assert ("the undo of 50 % of the effects was seen" in capfd.readouterr().err) is (code == 3)


def test_a_proof_is_made_where_the_config_is(capfd: Captured) -> None:
    assert call(Shelf(), "--url", "http://127.0.0.1:1", "prove", "order") == 2
    assert "prove works on this machine" in capfd.readouterr().err


def test_a_plan_is_made_where_the_config_is(capfd: Captured) -> None:
    assert call(Shelf(), "--url", "http://127.0.0.1:1", "plan") == 2
    assert "plan" in capfd.readouterr().err


def test_a_fork_says_where_it_begins(capfd: Captured) -> None:
    shelf = Shelf(msgspec.structs.replace(RUN, forked_from=ForkedFrom(run_id="0193-old", seq=7)), driven=False)
    assert call(shelf, "-o", "table", "runs", "fork", "0193", "--from", "pay", "--reason", "back", "--key", "k") == 0
    out, err = capfd.readouterr()
    assert shelf.asked == [("0193", ForkRequest(step="pay", reason="back", key="k"))]
    assert "0193-old, event 7" in out
    assert "no host drives this store" in err


def test_why_is_a_paragraph_and_what_may_follow(capfd: Captured) -> None:
    assert call(Shelf(), "-o", "table", "runs", "why", "0193") == 0
    out = capfd.readouterr().out
    assert out.startswith("It waits for Ada.\n")
    assert "  it goes on at pay:\n    runs signal 0193 approved\n" in out


def test_approvals_say_what_is_asked_of_whom(capfd: Captured) -> None:
    assert call(Shelf(), "-o", "table", "approvals", "list") == 0
    out = capfd.readouterr().out
    assert "A laptop for Ada?" in out
    assert "ann, bob, not the starter" in out
    assert "onboarding, approve" in out
    assert "rejected ann" in out


@pytest.mark.parametrize(("verb", "approved"), [("approve", True), ("reject", False)])
def test_a_decision_is_by_id_or_by_token(verb: str, approved: bool, capfd: Captured) -> None:
    shelf = Shelf()
    words = ("--comment", "as agreed", "--form", '{"budget": 12}')
    assert call(shelf, "approvals", verb, "0193a4c0", *words) == 0
    assert call(shelf, "approvals", verb, "d2FpdA.c2lnbmVk", *words) == 0
    form = {"budget": 12}
    assert shelf.asked == [
        ("0193a4c0", DecideRequest(approved=approved, comment="as agreed", form=form)),
        ("d2FpdA.c2lnbmVk", CompleteRequest(payload=form, approved=approved, comment="as agreed")),
    ]
    capfd.readouterr()


def test_a_run_that_waits_for_a_decision_says_how_to_decide(capfd: Captured) -> None:
    wait = msgspec.structs.replace(WAIT, approval=APPROVAL.id)
    call(Shelf(msgspec.structs.replace(WAITING, waits=[wait])), "-o", "table", "runs", "show", "0193")
    out = capfd.readouterr().out
    assert "It waits at approve #2 for a decision, until" in out
    assert f"bext-host approvals approve {APPROVAL.id} --comment" in out
    assert "runs signal" not in out


def test_watch_tells_what_is_waited_for_once_and_what_ended_it(capfd: Captured) -> None:
    """The journal tells of waits that are over, too: a line to type is told of the one that is open only."""
    over = {"branch": 0, "step": "approve", "visit": 1, "wait": {"next": "ship", "signal": "approved"}}

    class Growing(Shelf):
        @property
        def run(self) -> RunView:
            self.journal.append(event(len(self.journal) + 1, "recovered"))
            return super().run

    shelf = Growing(WAITING, WAITING, WAITING, RUN)
    shelf.journal = [
        event(1, "wait_opened", **over),
        event(2, "signal_received", act=1, name="approved", by="ada", late=True),
        event(3, "wait_ended", step="approve", visit=1, how="timer", next="approve"),
        event(4, "wait_opened", step="approve", visit=2, wait={"next": "ship", "signal": "approved", "due_at": 0}),
    ]

    assert call(shelf, "runs", "watch", "0193") == 0
    told = [line.split("  ", 1)[-1].strip() for line in capfd.readouterr().err.splitlines()]
    at, epoch = cells.moment(WAITING.created_at).text, cells.moment("1970-01-01T00:00:00.000Z").text
    assert told == [
        "◷  wait opened  approve  for signal approved",
        "→  signal received  approved, too late · by ada",
        "▸  wait ended  approve  by its time",
        f"◷  wait opened  approve #2  for signal approved, until {epoch}",
        "·  recovered",
        f"it waits at approve #2 for signal approved, until {at}, since {at}",
        f"bext-host runs signal {RUN.run_id} approved --payload '{{}}'",
        *["·  recovered"] * 3,
    ]


def test_a_workflow_shows_its_waits_in_words(capfd: Captured) -> None:
    call(Shelf(), "workflows", "show", "checkout", "-o", "table")

    lines = [" ".join(line.split()) for line in capfd.readouterr().out.splitlines()]
    assert "longest run 1 s" in lines
    assert "approve waits for the signal ok into by, at most 1 h 30 min, then it goes to end" in lines
    assert any(line.startswith("rest waits 1 d 250 ms; next end") for line in lines)
    assert any(line.startswith("reserve 3 attempts, 1 s × 2, at most 30 s; time-out 1 min") for line in lines)


def test_who_types_uv_run_is_told_lines_that_begin_so(capfd: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_RUN_RECURSION_DEPTH", "1")
    shelf = Shelf()
    shelf.incidents = [INCIDENT]

    call(shelf, "-o", "table", "incidents", "show", "0193")

    assert f"    uv run bext-host incidents resolve {INCIDENT.id} --action retry" in capfd.readouterr().out


IN_DOUBT = msgspec.structs.replace(
    INCIDENT,
    kind=IncidentKind.IN_DOUBT,
    call=Call.STEP,
    step="charge",
    idempotency_key="k:charge",
    actions=[Action.DONE, Action.NOT_DONE],
)


def test_a_card_shows_the_keys_by_which_effects_are_found(capfd: Captured) -> None:
    """Those of steps that are neither done for good nor undone."""
    names = {"charge": "in_doubt", "mail": "retrying", "pack": "compensated"}
    steps = [StepView(step=n, visit=1, status=s, attempts=1, idempotency_key=f"k:{n}") for n, s in names.items()]
    suspended = msgspec.structs.replace(RUN, status=WorkflowStatus.SUSPENDED, steps=[STEP, *steps])
    shelf = Shelf(suspended, msgspec.structs.replace(suspended, status=WorkflowStatus.COMPENSATED))
    shelf.incidents = [IN_DOUBT]

    call(shelf, "-o", "table", "runs", "show", "0193")

    out = "".join(f"{line.rstrip()}\n" for line in capfd.readouterr().out.splitlines())
    assert "\nIdempotency keys\ncharge  k:charge\nmail    k:mail\n\n" in out
    assert "\nkey  k:charge\n" in out
    call(shelf, "-o", "table", "runs", "show", "0193")
    assert "Idempotency keys" not in capfd.readouterr().out


@pytest.mark.parametrize(("called", "ends"), [(Call.STEP, " --updates '{}'"), (Call.UNDO, "")])
def test_an_incident_shows_its_key_and_what_done_takes_with_it(capfd: Captured, called: Call, ends: str) -> None:
    shelf = Shelf()
    shelf.incidents = [msgspec.structs.replace(IN_DOUBT, call=called)]

    call(shelf, "-o", "table", "incidents", "show", "0193")

    out = capfd.readouterr().out
    assert "\nkey       k:charge" in out
    assert f"incidents resolve {INCIDENT.id} --action done --note '…'{ends}\n" in out
    assert ("(--updates)" in out) == (called is Call.STEP)


def test_the_highest_version_is_shown_unless_one_is_named(capfd: Captured) -> None:
    call(Shelf(), "workflows", "show", "checkout")
    assert json.loads(capfd.readouterr().out)["version"] == 3
    call(Shelf(), "workflows", "show", "checkout@2")
    assert json.loads(capfd.readouterr().out)["version"] == 2
    assert call(Shelf(), "workflows", "show", "chekout") == 4
    assert capfd.readouterr().err == "error: no workflow 'chekout'\n  did you mean 'checkout@3'?\n"
    assert call(Shelf(), "plugins", "show", "q") == 4


def test_serve_hands_on_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEXT_LISTEN", "127.0.0.1:0")
    wiring = ShelfWiring(Shelf())
    words = ["--concurrency", "3", "--drain-timeout", "2s", "--migrate", "--degraded", "--ready-file", "r.json", "-vv"]

    assert run(lambda: wiring, ["serve", *words]) == 0
    (options,) = wiring.served
    assert (options.listen, options.concurrency, options.drain_timeout_ms) == ("127.0.0.1:0", 3, 2_000)
    assert (options.migrate, options.degraded, options.ready_file) == (True, True, Path("r.json"))
    assert options.verbosity == 2


def test_a_copy_tells_what_went_over(capfd: Captured) -> None:
    words = ["db", "copy", "--to", "postgresql://db/bext"]
    assert call(Shelf(), *words, "-o", "json") == 0
    assert json.loads(capfd.readouterr().out) == {
        "store": STORE.store,
        "to": "postgresql://db/bext",
        "rows": {"runs": 3, "journal": 12},
    }
    assert call(Shelf(), *words, "-o", "table") == 0
    lines = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert lines[-2:] == [["runs", "3"], ["journal", "12"]]
    assert call(Shelf(), "db", "copy") == 2


@pytest.mark.parametrize(
    ("what", "health", "code"),
    [
        ("disk", Health.WARNING, 0),
        ("disk", Health.ERROR, 6),
        ("store", Health.ERROR, 6),
        ("config", Health.ERROR, 3),
        ("plugins", Health.ERROR, 3),
        ("schema", Health.ERROR, 3),
    ],
)
def test_the_doctor_says_what_is_not_well_and_what_mends_it(
    what: str, health: Health, code: int, capfd: Captured
) -> None:
    shelf = Shelf()
    shelf.diagnosis = msgspec.structs.replace(
        shelf.diagnosis, checked=[Checked(what=what, health=health, said="it is so", mend="do that")]
    )
    assert call(shelf, "doctor", "-o", "table") == code
    out = capfd.readouterr().out
    assert (health.value in out, "it is so" in out, "do that" in out) == (True, True, True)
    assert call(shelf, "doctor", "-o", "json") == code
    (item,) = json.loads(capfd.readouterr().out)["items"]
    assert item == {"what": what, "health": health.value, "said": "it is so", "mend": "do that"}


def test_a_bundle_is_a_new_file_for_its_owner(tmp_path: Path, capfd: Captured) -> None:
    bundle = tmp_path / "bundle.json"
    assert call(Shelf(), "doctor", "--bundle", str(bundle)) == 0
    assert json.loads(bundle.read_text())["facts"] == {"store": {"engine": "SQLite 3.40.1"}}
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o600
    assert call(Shelf(), "doctor", "--bundle", str(bundle)) == 5


@pytest.mark.parametrize("dry_run", [True, False])
def test_pruning_tells_how_much_went_by_how_it_ended(dry_run: bool, capfd: Captured) -> None:
    words = ["db", "prune", *(["--dry-run"] if dry_run else [])]
    assert call(Shelf(), *words, "-o", "json") == 0
    told = {"store": STORE.store, "dry_run": dry_run, "runs": {"COMPLETED": 2, "FAILED": 0}, "start_keys": 1}
    assert json.loads(capfd.readouterr().out) == told
    assert call(Shelf(), *words, "-o", "table") == 0
    assert "COMPLETED" in capfd.readouterr().out


def test_a_backup_tells_where_it_is(tmp_path: Path, capfd: Captured) -> None:
    assert call(Shelf(), "db", "backup", str(tmp_path / "b.db"), "-o", "json") == 0
    assert json.loads(capfd.readouterr().out) == {
        "store": STORE.store,
        "to": str(tmp_path / "b.db"),
        "bytes": 4_096,
    }


@pytest.mark.parametrize(("severity", "code"), [(Severity.ERROR, 3), (Severity.WARNING, 0)])
@pytest.mark.parametrize("form", ["json", "table"])
def test_check_fails_for_errors_only(severity: Severity, code: int, form: str, capfd: Captured) -> None:
    shelf = Shelf()
    finding = Finding(code="undo-unsaid", severity=severity, where="checkout.charge", message="m", mend="say it")
    shelf.report = msgspec.structs.replace(shelf.report, findings=[finding])

    assert call(shelf, "check", "-o", form) == code
    assert "undo-unsaid" in capfd.readouterr().out


def test_the_config_is_shown_by_key_path(capfd: Captured) -> None:
    call(Shelf(), "config", "show", "-o", "table")
    assert [line.split() for line in capfd.readouterr().out.splitlines()[2:]] == [
        ["host.listen", '"127.0.0.1:7420"'],
        ["plugins[0].name", '"p"'],
    ]


@pytest.mark.parametrize("form", ["table", "json", "jsonl"])
@pytest.mark.parametrize(
    "words",
    [
        ["runs", "list"],
        ["runs", "show", "0193"],
        ["runs", "events", "0193"],
        ["runs", "cancel", "0193", "--dry-run"],
        ["runs", "retry", "0193"],
        ["runs", "signal", "0193", "approved"],
        ["runs", "pause", "0193"],
        ["runs", "resume", "0193"],
        ["incidents", "list"],
        ["incidents", "show", "0193"],
        ["workflows", "list"],
        ["workflows", "show", "checkout"],
        ["plugins", "list"],
        ["plugins", "show", "p"],
        ["init", "folder"],
    ],
)
def test_every_command_has_every_form(words: list[str], form: str, capfd: Captured) -> None:
    shelf = Shelf()
    shelf.incidents = [msgspec.structs.replace(INCIDENT, evidence={"a": 1}, traceback="Traceback:\n  boom")]
    shelf.journal = [event(1, "incident_opened", kind="poison", actions=["retry"], by="ada", note="n")]

    assert call(shelf, *words, "-o", form) == 0
    out = capfd.readouterr().out
    parsed: list[JsonObject] = [json.loads(line) for line in out.splitlines()] if form == "jsonl" else []
    assert out
    assert form != "jsonl" or all(parsed)
    assert form != "json" or json.loads(out)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["wokflows"], "Did you mean 'workflows'?"),
        (["runs", "lst"], "Did you mean 'list'?"),
        (["runs", "list", "--staus", "FAILED"], "'--status'"),
        (["runs", "start"], "Missing argument 'WORKFLOW"),
        (["runs", "start", "checkout", "--wait=5"], "'5' is not a duration"),
        (["runs", "start", "checkout", "--input", "{"], "is not JSON"),
        (["runs", "start", "checkout", "--set", "x=[1e999]"], "$[0]: inf is not a JSON number"),
        (["runs", "start", "checkout", "--input", '{"a": 1}', "--set", "a.b=1"], "a is not an object"),
        (["runs", "start", "checkout", "more"], "Got unexpected extra argument"),
        (["runs", "signal", "0193"], "Missing argument 'NAME'"),
        (["runs", "signal", "0193", "approved", "--payload", "yes"], "is not JSON"),
        (["incidents", "resolve", "0193", "--action", "retry"], "Missing option '--note'"),
        (["incidents", "resolve", "0193", "--action", "redo", "--note", "n"], "'redo' is not one of"),
    ],
)
def test_a_mistyped_line_is_one_error_with_exit_code_2(words: list[str], said: str, capfd: Captured) -> None:
    assert call(Shelf(), *words) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert said in err


def test_an_error_is_two_lines_without_escapes(capfd: Captured) -> None:
    shelf = Shelf(error=errors.NotFound("no run \x1b[31m'x'", mend="see `bext-host runs list`"))

    assert call(shelf, "runs", "show", "x") == 4
    assert capfd.readouterr().err == "error: no run 'x'\n  see `bext-host runs list`\n"


def test_an_unexpected_error_is_one_line_and_a_traceback_for_who_asks(capfd: Captured) -> None:
    assert call(Shelf(error=KeyError("x")), "runs", "show", "x") == 1
    assert capfd.readouterr().err == "error: unexpected KeyError: 'x'\n  run it again with -v to see the traceback\n"
    assert call(Shelf(error=KeyError("x")), "runs", "show", "x", "-v") == 1
    assert "Traceback (most recent call last)" in capfd.readouterr().err


def test_an_error_inside_a_group_is_the_one_that_is_told(capfd: Captured) -> None:
    inner = ExceptionGroup("tasks", [ValueError("noise"), ExceptionGroup("more", [errors.StoreBusy("taken by 42")])])

    assert call(Shelf(error=inner), "runs", "show", "x") == 5
    assert capfd.readouterr().err == "error: taken by 42\n"


def test_an_interrupt_is_130(capfd: Captured) -> None:
    assert call(Shelf(error=KeyboardInterrupt()), "runs", "show", "x") == 130
    assert capfd.readouterr().err == "interrupted\n"
