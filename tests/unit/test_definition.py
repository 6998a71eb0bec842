"""Definitions: what a graph may look like, where a run goes in it, and what its digest covers."""

from __future__ import annotations

import msgspec
import pytest

from bext_workflow import RetryPolicy, StepDefinition, WorkflowDefinition, WorkflowError
from bext_workflow.errors import DefinitionError
from bext_workflow.model.definition import error_names
from bext_workflow.model.graph import graph_diff
from bext_workflow.model.json import Json
from bext_workflow.model.names import is_name
from bext_workflow.model.wait import ApprovalDefinition, WaitDefinition


def step(name: str, **settings: Json) -> StepDefinition:
    return StepDefinition(name=name, **settings)


def workflow(*steps: StepDefinition, **settings: Json) -> WorkflowDefinition:
    return WorkflowDefinition(id="order", steps=steps, **settings)


def refusal(*steps: StepDefinition, **settings: Json) -> str:
    with pytest.raises(DefinitionError) as refused:
        workflow(*steps, **settings)
    assert refused.value.mend
    return refused.value.message


class TestNames:
    @pytest.mark.parametrize("name", ["a", "A-Z_0.9", "x" * 100, "."])
    def test_allowed(self, name: str) -> None:
        assert is_name(name)

    @pytest.mark.parametrize("name", ["", "x" * 101, "a b", "a/b", "ä", "a\n", "a\0"])
    def test_refused(self, name: str) -> None:
        assert not is_name(name)
        with pytest.raises(DefinitionError):
            step(name)
        with pytest.raises(DefinitionError):
            WorkflowDefinition(id=name, steps=(step("a"),))

    def test_end_is_reserved_for_steps(self) -> None:
        with pytest.raises(DefinitionError, match="'end' cannot name a step"):
            step("end")


class TestGraph:
    def test_a_sequence_falls_through_to_its_end(self) -> None:
        order = workflow(step("a"), step("b"))
        assert (order.first, order.default_next("a"), order.default_next("b")) == ("a", "b", "end")

    def test_a_declared_next_replaces_the_fall_through(self) -> None:
        order = workflow(step("a", next="c"), step("b", next="end"), step("c", next="b"))
        assert [order.default_next(name) for name in "abc"] == ["c", "end", "b"]

    def test_an_outcome_may_choose_what_is_declared_or_follows(self) -> None:
        """Semantics §3."""
        order = workflow(
            step("a", next="c", branches=("d", "c")), step("b", next="end"), step("c", next="end"), step("d")
        )
        assert order.targets("a") == ("c", "d", "b")
        assert order.targets("b") == ("end", "c")
        assert order.targets("d") == ("end",)

    def test_sub_workflows_are_graph_and_are_the_hosts_own(self) -> None:
        order = workflow(step("a", workflow="ship"), step("b"), step("c", workflow="ship"), step("d", workflow="bill"))
        assert order.sub_workflows == ("ship", "bill")
        assert (order.by_name["a"].hosted, order.by_name["a"].waits) == (True, False)
        assert order.digest != workflow(step("a"), *order.steps[1:]).digest

    @pytest.mark.parametrize(
        ("one", "other", "reason"),
        [
            ({}, {"schema": {"type": "object"}}, "steps 'a' and 'b' wait for 'go', with different schemas"),
            ({}, {"approval": ApprovalDefinition()}, "steps 'a' and 'b' wait for 'go', one of them as an approval"),
            ({"schema": {"type": 1}}, {}, "step 'a': wait.schema is no JSON Schema: at \\$.type"),
            ({"schema": {"allOf": [{"$ref": "x.json"}]}}, {}, "it refers to 'x.json'"),
            ({"timeout_ms": 5, "approval": ApprovalDefinition(remind_ms=5)}, {}, "remind_ms is 5, and the time is"),
            ({"approval": ApprovalDefinition(remind_ms=-1)}, {}, "remind_ms is -1"),
            ({"approval": ApprovalDefinition(on_reject="x")}, {"approval": ApprovalDefinition()}, "goes to 'x'"),
        ],
    )
    def test_waits_that_cannot_be(self, one: dict[str, Json], other: dict[str, Json], reason: str) -> None:
        with pytest.raises(DefinitionError, match=reason):
            workflow(
                step("a", wait=WaitDefinition(signal="go", **one)), step("b", wait=WaitDefinition(signal="go", **other))
            )

    def test_nobody_is_called_starters_friend(self) -> None:
        with pytest.raises(DefinitionError, match="not_by is 'friend'"):
            msgspec.structs.replace(ApprovalDefinition(), not_by="friend")

    @pytest.mark.parametrize(
        ("settings", "reason"),
        [
            ({"workflow": "no name"}, "'no name' cannot name a workflow"),
            ({"workflow": "ship", "sleep_ms": 5}, "it states workflow and a wait"),
            ({"workflow": "ship", "wait": WaitDefinition(signal="go")}, "it states workflow and a wait"),
        ],
    )
    def test_a_sub_workflow_is_nothing_else(self, settings: dict[str, Json], reason: str) -> None:
        with pytest.raises(DefinitionError, match=reason):
            step("a", **settings)

    def test_no_steps(self) -> None:
        assert "no steps" in refusal()

    def test_a_step_twice(self) -> None:
        assert "'a' stands twice" in refusal(step("a"), step("b"), step("a"))

    def test_versions_count_from_1(self) -> None:
        assert "version is 0" in refusal(step("a"), version=0)

    def test_next_is_a_step(self) -> None:
        assert "step 'a' goes to 'x'" in refusal(step("a", next="x"))

    def test_branches_are_steps(self) -> None:
        assert "step 'a' goes to 'x'" in refusal(step("a", branches=("end", "x")))

    def test_nothing_falls_through_into_a_step_that_is_chosen(self) -> None:
        """Semantics §3: the step before it must declare its next."""
        assert "'b' would fall through into 'c'" in refusal(step("a", branches=("c",)), step("b"), step("c"))
        workflow(step("a", branches=("c",)), step("b", next="end"), step("c"))


class TestSteps:
    def test_the_defaults_are_those_of_the_semantics(self) -> None:
        plain = step("a")
        assert plain.retries == RetryPolicy()
        assert plain.timeout_ms == 60_000
        assert plain.idempotent
        assert plain.undo_idempotent
        assert not plain.compensate_on_failure
        assert not plain.pivot
        assert plain.max_visits == 10_000

    def test_retry_on_is_refused_where_unknown_ends_are_never_retried(self) -> None:
        with pytest.raises(DefinitionError, match="retry_on and idempotent = false"):
            step("a", idempotent=False, retry_on=("ValueError",))

    @pytest.mark.parametrize("settings", [{"timeout_ms": -1}, {"max_visits": 0}], ids=str)
    def test_bounds(self, settings: dict[str, int]) -> None:
        with pytest.raises(DefinitionError, match=next(iter(settings))):
            step("a", **settings)

    def test_a_workflows_retry_on_is_the_default_of_its_idempotent_steps(self) -> None:
        order = workflow(
            step("a"), step("b", retry_on=("KeyError",)), step("c", idempotent=False), retry_on=("ValueError",)
        )
        assert [one.retry_on for one in order.steps] == [("ValueError",), ("KeyError",), None]


class PaymentTimeout(Exception):
    """As libraries have them: no `TimeoutError`."""


class CardTimeout(PaymentTimeout): ...


class TestShouldRetry:
    """Semantics §2: the step knows what is transient."""

    @pytest.mark.parametrize("error", [TimeoutError(), ConnectionError(), ConnectionResetError()], ids=repr)
    def test_time_outs_and_lost_connections_are_transient(self, error: Exception) -> None:
        assert step("a").should_retry(error, 1)

    @pytest.mark.parametrize("error", [ValueError(), OSError(), KeyError("x")], ids=repr)
    def test_others_are_not(self, error: Exception) -> None:
        assert not step("a").should_retry(error, 1)

    def test_not_after_the_last_attempt(self) -> None:
        assert [step("a").should_retry(TimeoutError(), n) for n in (1, 2, 3, 4)] == [True, True, False, False]

    @pytest.mark.parametrize("name", ["PaymentTimeout", f"{__name__}.PaymentTimeout", "CardTimeout"])
    def test_retry_on_names_classes_bare_or_dotted_over_the_hierarchy(self, name: str) -> None:
        assert step("a", retry_on=(name,)).should_retry(CardTimeout(), 1)

    @pytest.mark.parametrize("name", ["other.PaymentTimeout", "Timeout", "paymenttimeout"])
    def test_retry_on_matches_whole_names(self, name: str) -> None:
        assert not step("a", retry_on=(name,)).should_retry(CardTimeout(), 1)

    def test_a_step_that_is_not_idempotent_is_never_retried_by_error(self) -> None:
        assert not step("a", idempotent=False).should_retry(TimeoutError(), 1)

    def test_error_names_hold_bases(self) -> None:
        assert {"CardTimeout", f"{__name__}.PaymentTimeout", "Exception", "builtins.Exception"} <= error_names(
            CardTimeout()
        )


class TestDigest:
    """What a live run depends on (semantics §10)."""

    base = workflow(step("a", next="b", branches=("c", "d")), step("b", next="end"), step("c", next="end"), step("d"))

    @pytest.mark.parametrize(
        "change",
        [
            {"description": "words"},
            {"retries": RetryPolicy(max_attempts=9)},
            {"timeout_ms": 5},
            {"retry_on": ("ValueError",)},
            {"compensation_retries": RetryPolicy.none()},
            {"max_visits": 3},
            {"branches": ("d", "c")},
        ],
        ids=str,
    )
    def test_policy_and_words_are_not_in_it(self, change: dict[str, Json]) -> None:
        assert self.changed(**change).digest == self.base.digest

    @pytest.mark.parametrize(
        "change",
        [
            {"name": "z"},
            {"next": "c"},
            {"branches": ("c",)},
            {"idempotent": False},
            {"pivot": True},
            {"compensate_on_failure": True},
            {"undo_idempotent": False},
        ],
        ids=str,
    )
    def test_the_graph_and_the_flags_of_effects_are(self, change: dict[str, Json]) -> None:
        """P49."""
        assert self.changed(**change).digest != self.base.digest

    def test_id_version_and_order_are(self) -> None:
        a, b = step("a"), step("b")
        digests = {
            one.digest
            for one in (
                workflow(a, b),
                workflow(b, a),
                workflow(a, b, version=2),
                WorkflowDefinition(id="other", steps=(a, b)),
            )
        }
        assert len(digests) == 4

    def test_it_is_the_same_in_every_process(self) -> None:
        """Stored digests are compared by other processes and releases: this one may never change."""
        assert workflow(step("a"), step("b", idempotent=False)).digest == "4f11d949b4c7be7f"

    def test_it_survives_the_store(self) -> None:
        read = msgspec.json.decode(msgspec.json.encode(self.base), type=WorkflowDefinition)
        assert read == self.base
        assert read.digest == self.base.digest

    def changed(self, **change: Json) -> WorkflowDefinition:
        first, *others = self.base.steps
        return workflow(msgspec.structs.replace(first, **change), *others)


class TestGraphDiff:
    """What `check` and `serve` say of a changed graph (P49)."""

    def test_equal_graphs(self) -> None:
        assert graph_diff(workflow(step("a")).graph(), workflow(step("a", timeout_ms=5)).graph()) == []

    def test_steps_that_went_and_came(self) -> None:
        old, new = workflow(step("a"), step("b")), workflow(step("a"), step("c"))
        assert graph_diff(old.graph(), new.graph()) == ["step 'b' is gone", "step 'c' is new"]

    def test_another_order(self) -> None:
        old, new = workflow(step("a"), step("b")), workflow(step("b"), step("x"), step("a"))
        assert graph_diff(old.graph(), new.graph()) == ["step 'x' is new", "the order was a, b; it is b, a"]

    def test_flags_and_ways(self) -> None:
        old = workflow(step("a", idempotent=False, next="c"), step("b", next="c"), step("c"))
        new = workflow(step("a", pivot=True, next="b", branches=("c",)), step("b", next="c"), step("c"))
        assert graph_diff(old.graph(), new.graph()) == [
            "step 'a': next was c; it is b",
            "step 'a': idempotent was false; it is true",
            "step 'a': branches was not set; it is c",
            "step 'a': pivot was false; it is true",
        ]


def test_step_not_found_is_permanent_and_names_the_step() -> None:
    error = WorkflowError.step_not_found("pack")
    assert (str(error), error.retryable) == ("step not found: pack", False)


def test_a_retryable_form() -> None:
    assert WorkflowError("busy", retryable=True).retryable
