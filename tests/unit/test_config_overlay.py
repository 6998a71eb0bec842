"""`[[plugins.workflows]]`: an overlay of the plugin's own definition, or a definition by itself (semantics §10)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bext_workflow import OnExhausted, RetryPolicy, StepDefinition, WorkflowDefinition
from bext_workflow.config import load_config
from bext_workflow.errors import ConfigError
from bext_workflow.model.policy import DEFAULT_COMPENSATION_RETRIES
from bext_workflow.model.wait import ApprovalDefinition, NotBy, WaitDefinition
from bext_workflow.plugin.overlay import WorkflowEntry, define, overlay
from tests.unit.test_config import SPEC, write

OWN = WorkflowDefinition(
    id="order",
    description="the plugin's",
    retry_on=("ShopTimeout",),
    steps=(
        StepDefinition(name="pack", retries=RetryPolicy(max_attempts=7, backoff_ms=70, jitter=0.2)),
        StepDefinition(name="pay", idempotent=False, compensate_on_failure=True, retries=RetryPolicy.none()),
        StepDefinition(name="ship", pivot=True, timeout_ms=5000, retry_on=("CarrierBusy",)),
    ),
)


def entry(folder: Path, text: str) -> WorkflowEntry:
    """The entry of a workflow order@1 with these keys."""
    head = '[[plugins]]\nname = "shop"\n[[plugins.workflows]]\nid = "order"\n'
    return load_config(write(folder, head + text)).plugins[0].workflows[0]


def steps(pack: str = "", pay: str = "", ship: str = "") -> str:
    return f'steps = [{{ name = "pack"{pack} }}, {{ name = "pay"{pay} }}, {{ name = "ship"{ship} }}]\n'


class TestOverlay:
    def test_what_is_not_stated_stays_the_plugins(self, tmp_path: Path) -> None:
        assert overlay(OWN, entry(tmp_path, steps())) == OWN

    def test_a_stated_key_alone_changes(self, tmp_path: Path) -> None:
        laid = overlay(OWN, entry(tmp_path, steps(ship=", timeout_ms = 9000")))
        assert laid.by_name["ship"].timeout_ms == 9000
        assert laid.by_name["ship"].pivot
        assert laid.steps[:2] == OWN.steps[:2]
        assert laid.digest == OWN.digest

    def test_absent_keys_of_a_stated_policy_are_the_plugins(self, tmp_path: Path) -> None:
        """Semantics §3: not the default policy's."""
        laid = overlay(OWN, entry(tmp_path, steps(pack=", retries = { backoff_ms = 900 }")))
        assert laid.by_name["pack"].retries == RetryPolicy(max_attempts=7, backoff_ms=900, jitter=0.2)

    def test_the_undos_policy_likewise(self, tmp_path: Path) -> None:
        laid = overlay(OWN, entry(tmp_path, steps(pack=", compensation_retries = { max_attempts = 2 }")))
        assert laid.by_name["pack"].compensation_retries == RetryPolicy(max_attempts=2, max_backoff_ms=300_000)

    def test_keys_of_the_workflow(self, tmp_path: Path) -> None:
        laid = overlay(OWN, entry(tmp_path, f'description = "ours"\n{steps()}'))
        assert (laid.description, laid.steps) == ("ours", OWN.steps)

    def test_a_stated_retry_on_replaces_the_plugins_default_only(self, tmp_path: Path) -> None:
        laid = overlay(OWN, entry(tmp_path, f'retry_on = ["ValueError"]\n{steps()}'))
        assert [step.retry_on for step in laid.steps] == [("ValueError",), None, ("CarrierBusy",)]

    def test_a_step_may_become_stricter(self, tmp_path: Path) -> None:
        """Also where the plugin's default retry_on stood."""
        laid = overlay(
            OWN, entry(tmp_path, steps(pack=", idempotent = false, compensate_on_failure = true, pivot = true"))
        )
        pack = laid.by_name["pack"]
        assert (pack.idempotent, pack.pivot, pack.retry_on) == (False, True, None)

    def test_a_graph_that_changes_has_another_digest(self, tmp_path: Path) -> None:
        """P49."""
        assert overlay(OWN, entry(tmp_path, steps(pack=', next = "ship"'))).digest != OWN.digest

    @pytest.mark.parametrize(
        ("text", "path", "key"),
        [
            (steps(pay=", idempotent = true"), "steps[1].idempotent", "idempotent"),
            (steps(pay=", compensate_on_failure = false"), "steps[1].compensate_on_failure", "compensate_on_failure"),
            (steps(ship=", pivot = false"), "steps[2].pivot", "pivot"),
        ],
    )
    def test_what_the_author_asserts_cannot_be_loosened(self, tmp_path: Path, text: str, path: str, key: str) -> None:
        with pytest.raises(ConfigError) as raised:
            overlay(OWN, entry(tmp_path, text))
        assert raised.value.path == f"plugins[0].workflows[0].{path}"
        assert raised.value.file == str(tmp_path / "bext.config.toml")
        assert f"cannot loosen {key}" in raised.value.reason

    def test_saying_the_same_is_no_loosening(self, tmp_path: Path) -> None:
        same = steps(pay=", idempotent = false, compensate_on_failure = true", ship=", pivot = true")
        assert overlay(OWN, entry(tmp_path, same)) == OWN

    def test_a_step_listed_without_idempotent_does_not_loosen_it(self, tmp_path: Path) -> None:
        """Issue: "a config that lists `charge_card` without `idempotent` does not loosen a plugin's `false`"."""
        laid = overlay(OWN, entry(tmp_path, steps(pay=", retries = { max_attempts = 2 }")))
        assert not laid.by_name["pay"].idempotent

    @pytest.mark.parametrize(
        "text",
        [
            'steps = [{ name = "pack" }, { name = "pay" }]\n',
            'steps = [{ name = "pay" }, { name = "pack" }, { name = "ship" }]\n',
            'steps = [{ name = "pack" }, { name = "pay" }, { name = "send" }]\n',
            'steps = [{ name = "pack" }, { name = "pay" }, { name = "ship" }, { name = "more" }]\n',
        ],
        ids=["fewer", "order", "other", "more"],
    )
    def test_it_names_the_same_steps_in_the_same_order(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(ConfigError) as raised:
            overlay(OWN, entry(tmp_path, text))
        assert raised.value.path == "plugins[0].workflows[0].steps"
        assert "pack, pay, ship" in raised.value.reason

    @pytest.mark.parametrize(
        ("text", "path"),
        [
            (steps(pay=', retry_on = ["ValueError"]'), "plugins[0].workflows[0].steps[1]"),
            (steps(pack=', next = "nowhere"'), "plugins[0].workflows[0]"),
            (steps(pack=', branches = ["ship"]'), "plugins[0].workflows[0]"),
        ],
    )
    def test_what_makes_no_definition_has_a_path_too(self, tmp_path: Path, text: str, path: str) -> None:
        with pytest.raises(ConfigError) as raised:
            overlay(OWN, entry(tmp_path, text))
        assert raised.value.path == path
        assert raised.value.mend


WAITING = WorkflowDefinition(
    id="order",
    retry_on=("ShopTimeout",),
    steps=(
        StepDefinition(name="pack"),
        StepDefinition(
            name="approve", wait=WaitDefinition(signal="ok", timeout_ms=500, on_timeout="late"), next="rest"
        ),
        StepDefinition(name="late", next="rest"),
        StepDefinition(name="rest", sleep_ms=1000),
    ),
)


def waiting(approve: str = "", rest: str = "", pack: str = "") -> str:
    return (
        f'steps = [{{ name = "pack"{pack} }}, {{ name = "approve"{approve} }}, {{ name = "late" }}, '
        f'{{ name = "rest"{rest} }}]\n'
    )


class TestOverlayOfApprovals:
    """Semantics §10: that it is a decision, and where a no leads, is graph; who decides is policy."""

    ASKING = WorkflowDefinition(
        id="order",
        steps=(
            StepDefinition(
                name="ask", wait=WaitDefinition(signal="ok", approval=ApprovalDefinition(by=("ada",), on_reject="end"))
            ),
            StepDefinition(name="plain", wait=WaitDefinition(signal="go")),
        ),
    )

    def laid(self, tmp_path: Path, ask: str = "", plain: str = "") -> WorkflowDefinition:
        text = f'steps = [{{ name = "ask", wait = {{ {ask} }} }}, {{ name = "plain", wait = {{ {plain} }} }}]\n'
        return overlay(self.ASKING, entry(tmp_path, text))

    def test_who_decides_and_on_what_form_is_policy(self, tmp_path: Path) -> None:
        laid = self.laid(tmp_path, 'schema = { type = "object" }, approval = { by = ["bob"], remind_ms = 5 }')
        assert laid.by_name["ask"].wait == WaitDefinition(
            signal="ok",
            schema={"type": "object"},
            approval=ApprovalDefinition(by=("bob",), remind_ms=5, on_reject="end"),
        )
        assert laid.digest == self.ASKING.digest

    @pytest.mark.parametrize(
        ("ask", "plain", "reason"),
        [
            ('approval = { on_reject = "plain" }', "", "goes to 'end' in the plugin's own workflow"),
            ("", "approval = {}", "is no approval of the plugin's own"),
        ],
    )
    def test_what_a_no_means_cannot_be_changed(self, tmp_path: Path, ask: str, plain: str, reason: str) -> None:
        """P49."""
        with pytest.raises(ConfigError, match=reason):
            self.laid(tmp_path, ask, plain)


class TestOverlayOfWaits:
    """Semantics §10: how a step waits is graph, how long is policy."""

    def test_the_numbers_of_waits_are_policy(self, tmp_path: Path) -> None:
        laid = overlay(WAITING, entry(tmp_path, waiting(", wait = { timeout_ms = 9 }", ", sleep_ms = 7")))
        assert laid.by_name["approve"].wait == WaitDefinition(signal="ok", timeout_ms=9, on_timeout="late")
        assert laid.by_name["rest"].sleep_ms == 7
        assert laid.digest == WAITING.digest

    def test_a_bound_of_the_run_and_of_retries_are_policy(self, tmp_path: Path) -> None:
        text = f"timeout_ms = 99\n{waiting(pack=', retries = { max_elapsed_ms = 5 }')}"
        laid = overlay(WAITING, entry(tmp_path, text))
        assert (laid.timeout_ms, laid.by_name["pack"].retries.max_elapsed_ms) == (99, 5)
        assert laid.digest == WAITING.digest

    @pytest.mark.parametrize(
        "text",
        [
            waiting(),
            waiting(", wait = {}"),
            waiting(', wait = { signal = "ok", timeout_ms = 500, on_timeout = "late" }', ", sleep_ms = 1000"),
        ],
    )
    def test_saying_the_same_changes_nothing(self, tmp_path: Path, text: str) -> None:
        assert overlay(WAITING, entry(tmp_path, text)) == WAITING

    @pytest.mark.parametrize(
        ("text", "path", "reason"),
        [
            (
                waiting(', wait = { signal = "go" }'),
                "steps[1].wait.signal",
                "step 'approve' has signal 'ok' in the plugin's own workflow",
            ),
            (
                waiting(', wait = { into = "decision" }'),
                "steps[1].wait.into",
                "step 'approve' has into not set in the plugin's own workflow",
            ),
            (
                waiting(', wait = { on_timeout = "end" }'),
                "steps[1].wait.on_timeout",
                "step 'approve' has on_timeout 'late' in the plugin's own workflow",
            ),
            (
                waiting(rest=', wait = { signal = "go" }'),
                "steps[3].wait",
                "step 'rest' is no wait of the plugin's own",
            ),
            (
                waiting(pack=', wait = { signal = "go" }'),
                "steps[0].wait",
                "step 'pack' is no wait of the plugin's own",
            ),
            (waiting(pack=", sleep_ms = 5"), "steps[0].sleep_ms", "step 'pack' is no sleep of the plugin's own"),
            (
                waiting(pack=', workflow = "other"'),
                "steps[0].workflow",
                "step 'pack' is no sub-workflow in the plugin's own workflow",
            ),
            (waiting(", sleep_ms = 5"), "steps[1].sleep_ms", "step 'approve' is no sleep of the plugin's own"),
            (
                waiting(rest=", sleep_ms = 0"),
                "steps[3].sleep_ms",
                "step 'rest' sleeps in the plugin's own workflow",
            ),
            (
                waiting(", wait = { timeout_ms = 0 }"),
                "steps[1].wait.on_timeout",
                "goes to 'late' when the time is over, and timeout_ms = 0 means that it never is",
            ),
            (
                waiting(rest=", pivot = true"),
                "steps[3].pivot",
                "step 'rest' is done by the host itself: no code is called that pivot could be about",
            ),
        ],
    )
    def test_what_is_waited_for_cannot_be_changed(self, tmp_path: Path, text: str, path: str, reason: str) -> None:
        """P49: runs that wait already would not be those of the workflow any more."""
        with pytest.raises(ConfigError) as raised:
            overlay(WAITING, entry(tmp_path, text))
        assert (raised.value.path, raised.value.reason) == (f"plugins[0].workflows[0].{path}", reason)
        assert raised.value.mend


class TestDefinition:
    def test_absent_keys_are_the_defaults(self, tmp_path: Path) -> None:
        (only,) = define(entry(tmp_path, 'steps = [{ name = "a" }]\n')).steps
        assert only == StepDefinition(name="a")
        assert only.retries == RetryPolicy(
            max_attempts=3, backoff_ms=1000, backoff_multiplier=2.0, max_backoff_ms=30_000
        )

    def test_absent_keys_of_a_stated_policy_are_the_default_policys(self, tmp_path: Path) -> None:
        text = 'steps = [{ name = "a", retries = { max_attempts = 9 }, compensation_retries = { jitter = 0.5 } }]\n'
        (only,) = define(entry(tmp_path, text)).steps
        assert only.retries == RetryPolicy(max_attempts=9)
        assert only.compensation_retries == RetryPolicy(max_attempts=10, max_backoff_ms=300_000, jitter=0.5)
        assert only.compensation_retries.max_attempts == DEFAULT_COMPENSATION_RETRIES.max_attempts

    def test_every_key_arrives(self, tmp_path: Path) -> None:
        text = """
        version = 3
        description = "words"
        retry_on = ["httpx.TimeoutException"]
        steps = [
            { name = "a", description = "first", next = "c", branches = ["b"], timeout_ms = 1, MORE },
            { name = "b", idempotent = false, undo_idempotent = false, compensate_on_failure = true, next = "end" },
            { name = "c", pivot = true },
        ]
        """
        more = 'max_visits = 2, retry_on = [], retries = { on_exhausted = "incident" }'
        defined = define(entry(tmp_path, text.replace("MORE", more)))
        assert defined == WorkflowDefinition(
            id="order",
            version=3,
            description="words",
            retry_on=("httpx.TimeoutException",),
            steps=(
                StepDefinition(
                    name="a",
                    description="first",
                    next="c",
                    branches=("b",),
                    timeout_ms=1,
                    max_visits=2,
                    retry_on=(),
                    retries=RetryPolicy(on_exhausted=OnExhausted.INCIDENT),
                ),
                StepDefinition(
                    name="b", idempotent=False, undo_idempotent=False, compensate_on_failure=True, next="end"
                ),
                StepDefinition(name="c", pivot=True),
            ),
        )

    def test_approvals_arrive(self, tmp_path: Path) -> None:
        text = """
        steps = [
            { name = "ask", next = "go", wait = { signal = "ok", timeout_ms = 50, SCHEMA, APPROVAL } },
            { name = "no", next = "end" },
            { name = "go", workflow = "other" },
        ]
        """
        approval = 'approval = { title = "?", by = ["ada"], not_by = "starter", remind_ms = 9, on_reject = "no" }'
        ask, _, go = define(
            entry(tmp_path, text.replace("SCHEMA", 'schema = { type = "object" }').replace("APPROVAL", approval))
        ).steps
        assert ask.wait == WaitDefinition(
            signal="ok",
            timeout_ms=50,
            schema={"type": "object"},
            approval=ApprovalDefinition(title="?", by=("ada",), not_by=NotBy.STARTER, remind_ms=9, on_reject="no"),
        )
        assert go.workflow == "other"

    def test_waits_arrive(self, tmp_path: Path) -> None:
        text = """
        timeout_ms = 86400000
        steps = [
            { name = "approve", wait = { signal = "ok", into = "by", timeout_ms = 5, on_timeout = "end" } },
            { name = "plain", wait = { signal = "go" }, max_visits = 3, idempotent = true, pivot = false },
            { name = "rest", sleep_ms = 1000, description = "till the bank has it" },
            { name = "act", sleep_ms = 0, retries = { max_elapsed_ms = 60000 } },
        ]
        """
        assert define(entry(tmp_path, text)) == WorkflowDefinition(
            id="order",
            timeout_ms=86_400_000,
            steps=(
                StepDefinition(
                    name="approve", wait=WaitDefinition(signal="ok", into="by", timeout_ms=5, on_timeout="end")
                ),
                StepDefinition(name="plain", wait=WaitDefinition(signal="go"), max_visits=3),
                StepDefinition(name="rest", sleep_ms=1000, description="till the bank has it"),
                StepDefinition(name="act", retries=RetryPolicy(max_elapsed_ms=60_000)),
            ),
        )

    @pytest.mark.parametrize(
        "stated",
        [
            "retries = { max_attempts = 1 }",
            'retry_on = ["OSError"]',
            "idempotent = false",
            "timeout_ms = 60000",
            'branches = ["end"]',
            "compensation_retries = { max_attempts = 1 }",
            "compensate_on_failure = true",
            "undo_idempotent = false",
            "pivot = true",
        ],
    )
    @pytest.mark.parametrize("hosted", ['wait = { signal = "ok" }', "sleep_ms = 5"])
    def test_what_is_about_code_makes_no_sense_where_the_host_waits(
        self, tmp_path: Path, stated: str, hosted: str
    ) -> None:
        with pytest.raises(ConfigError, match="no code is called") as raised:
            define(entry(tmp_path, f'steps = [{{ name = "a", {hosted}, {stated} }}]\n'))
        assert raised.value.path == f"plugins[0].workflows[0].steps[0].{stated.partition(' ')[0]}"
        assert raised.value.mend

    @pytest.mark.parametrize(
        ("hosted", "path", "reason"),
        [
            ("wait = {}", ".steps[0].wait.signal", "is missing"),
            ('wait = { signal = "ok" }, sleep_ms = 5', ".steps[0]", "step 'a' states wait and sleep_ms"),
            ('wait = { signal = "ok", on_timeout = "end" }', ".steps[0].wait.on_timeout", "goes to 'end' when"),
            (
                'wait = { signal = "ok", timeout_ms = 5, on_timeout = "b" }',
                "",
                "workflow 'order' version 1: step 'a' goes to 'b', which is not a step",
            ),
        ],
    )
    def test_a_wait_that_cannot_be(self, tmp_path: Path, hosted: str, path: str, reason: str) -> None:
        with pytest.raises(ConfigError) as raised:
            define(entry(tmp_path, f'steps = [{{ name = "a", {hosted} }}]\n'))
        assert raised.value.path == f"plugins[0].workflows[0]{path}"
        assert raised.value.reason.startswith(reason)
        assert raised.value.mend

    def test_what_follows_a_time_out_is_reached_by_choice_only(self, tmp_path: Path) -> None:
        """Semantics §3: never by fall-through."""
        late = 'wait = { signal = "ok", timeout_ms = 5, on_timeout = "b" }'
        with pytest.raises(ConfigError, match="step 'a' would fall through into 'b'"):
            define(entry(tmp_path, f'steps = [{{ name = "a", {late} }}, {{ name = "b" }}]\n'))

    def test_a_graph_that_cannot_be_run_names_the_entry(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"plugins\[0\].workflows\[0\]: .* step 'a' goes to"):
            define(entry(tmp_path, 'steps = [{ name = "a", next = "nowhere" }]\n'))

    def test_the_texts_checkout_by_itself(self, tmp_path: Path) -> None:
        """The literal values of the text's three steps."""
        checkout = define(load_config(write(tmp_path, SPEC)).plugins[0].workflows[0])
        assert [(step.name, step.idempotent) for step in checkout.steps] == [
            ("reserve_stock", True),
            ("charge_card", False),
            ("send_receipt", True),
        ]
        waits = [
            [step.retries.delay_ms_for_attempt(n) for n in range(1, step.retries.max_attempts + 1)]
            for step in checkout.steps
        ]
        assert waits == [[0, 500, 1000], [0], [0, 200, 400, 800, 1600]]
