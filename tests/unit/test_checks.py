"""`check`: each code is found where it should be, and nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bext_workflow import RetryPolicy, StepDefinition, WorkflowDefinition
from bext_workflow.checks import CODES, check_live, examine, make_report, plan_versions
from bext_workflow.checks.children import check_children
from bext_workflow.checks.graphs import check_graph, check_waits
from bext_workflow.checks.policies import check_policies, check_undo, longest_ms
from bext_workflow.model.fork import JoinDefinition
from bext_workflow.model.json import Json
from bext_workflow.model.wait import WaitDefinition
from bext_workflow.service.wiring import Change, Finding, Report, Severity, VersionPlan
from tests.integration.host.support import Calls, plugin, registry
from tests.unit.plugin_support import PLUGIN, Install, installer
from tests.unit.test_config import SPEC, write

SHOP = '[[plugins]]\nname = "shop"\n'


def step(name: str, **settings: Json) -> StepDefinition:
    return StepDefinition(name=name, **settings)


def workflow(*steps: StepDefinition, **settings: Json) -> WorkflowDefinition:
    return WorkflowDefinition(id="order", steps=steps, **settings)


def wait(**settings: Json) -> WaitDefinition:
    return WaitDefinition(signal="approved", **settings)


def graph(*steps: StepDefinition) -> list[tuple[str, str]]:
    return [(one.code, one.where) for one in check_graph(workflow(*steps), "order@1")]


def policies(**settings: Json) -> list[str]:
    return [one.code for one in check_policies(workflow(step("a", **settings)), "order@1")]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    return installer(tmp_path, monkeypatch)


def report(folder: Path, text: str, *, strict: bool = False) -> Report:
    return make_report(examine(write(folder, text)), strict=strict)


def codes(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(one.code, one.where) for one in findings]


class TestGraph:
    def test_a_sequence_is_fine(self) -> None:
        assert graph(step("a"), step("b"), step("c")) == []

    def test_choices_are_ways(self) -> None:
        assert graph(step("a", branches=("c",)), step("b", next="end"), step("c")) == []

    def test_unreachable(self) -> None:
        assert graph(step("a", next="c"), step("b", next="end"), step("c")) == [("step-unreachable", "order@1, step b")]

    def test_unreachable_from_the_first_though_not_alone(self) -> None:
        assert graph(step("a", next="end"), step("b", next="c"), step("c", next="b")) == [
            ("step-unreachable", "order@1, step b"),
            ("step-unreachable", "order@1, step c"),
        ]

    def test_a_loop_with_a_way_out_is_told(self) -> None:
        assert graph(step("a"), step("b", branches=("a",))) == [("loop", "order@1")]

    def test_a_loop_without_one_warns(self) -> None:
        assert graph(step("a", branches=("d",), next="b"), step("b"), step("c", next="b"), step("d")) == [
            ("never-ends", "order@1, step b"),
            ("never-ends", "order@1, step c"),
            ("loop", "order@1"),
        ]

    def test_a_step_that_goes_to_itself(self) -> None:
        assert graph(step("a", branches=("a", "end"), next="a")) == [("loop", "order@1")]

    def test_what_follows_a_time_out_is_reached(self) -> None:
        approve = step("approve", wait=wait(timeout_ms=5, on_timeout="remind"), next="ship")
        assert graph(approve, step("remind"), step("ship")) == []

    def test_a_time_out_is_a_way_round_and_a_way_out(self) -> None:
        approve = step("approve", wait=wait(timeout_ms=5, on_timeout="remind"), next="end")
        assert graph(approve, step("remind", next="approve")) == [("loop", "order@1")]
        stuck = step("approve", wait=wait(timeout_ms=5, on_timeout="end"), next="again")
        assert graph(stuck, step("again", next="approve")) == [("loop", "order@1")]

    def test_a_time_out_of_what_is_never_reached_reaches_nothing(self) -> None:
        approve = step("approve", wait=wait(timeout_ms=5, on_timeout="remind"), next="end")
        assert graph(step("a", next="end"), approve, step("remind", next="end")) == [
            ("step-unreachable", "order@1, step approve"),
            ("step-unreachable", "order@1, step remind"),
        ]


class TestPolicies:
    def test_the_defaults_are_fine(self) -> None:
        assert policies() == []

    @pytest.mark.parametrize(
        ("settings", "code"),
        [
            ({"timeout_ms": 0}, "no-timeout"),
            ({"idempotent": False}, "retries-need-word"),
            ({"retries": RetryPolicy(backoff_ms=0)}, "retries-without-wait"),
            ({"retries": RetryPolicy(max_backoff_ms=0)}, "retries-without-wait"),
            ({"retries": RetryPolicy(backoff_ms=5000, max_backoff_ms=1000)}, "backoff-over-limit"),
            ({"retries": RetryPolicy(max_attempts=3000)}, "slow-to-fail"),
            ({"timeout_ms": 86_400_000}, "slow-to-fail"),
        ],
    )
    def test_each_alone(self, settings: dict[str, Json], code: str) -> None:
        assert policies(**settings) == [code]

    def test_one_attempt_needs_no_wait(self) -> None:
        assert policies(retries=RetryPolicy.none(), idempotent=False) == []

    def test_the_longest_time_is_waits_and_attempts(self) -> None:
        text = RetryPolicy(max_attempts=5, backoff_ms=200, backoff_multiplier=2.0, max_backoff_ms=5000)
        assert longest_ms(text, 1000) == 0 + 200 + 400 + 800 + 1600 + 5 * 1000

    def test_the_longest_time_of_a_billion_attempts(self) -> None:
        policy = RetryPolicy(max_attempts=10**9, backoff_ms=1, backoff_multiplier=1.0, max_backoff_ms=1)
        assert longest_ms(policy, 0) == 10**9 - 1

    def test_the_longest_time_is_cut_by_max_elapsed_ms(self) -> None:
        """Semantics §3: no retry starts after it; the attempt that has started goes on."""
        policy = RetryPolicy(max_attempts=3000, max_elapsed_ms=60_000)
        assert longest_ms(policy, 1000) == 61_000
        assert longest_ms(RetryPolicy(max_attempts=2, max_elapsed_ms=60_000), 1000) == 3000


class TestWaits:
    """What the host does itself is called by nobody: only how long it takes can be wrong."""

    @staticmethod
    def found(*steps: StepDefinition, **settings: Json) -> list[tuple[str, str]]:
        return [(one.code, one.message) for one in check_policies(workflow(*steps, **settings), "order@1")]

    def test_a_bounded_wait_and_a_sleep_are_fine(self) -> None:
        long = 30 * 86_400_000
        assert self.found(step("a", wait=wait(timeout_ms=long)), step("b", sleep_ms=long)) == []

    def test_a_wait_without_a_bound_is_told_unless_the_run_has_one(self) -> None:
        assert self.found(step("a", wait=wait())) == [("wait-unbounded", "a run waits here until the signal comes")]
        assert self.found(step("a", wait=wait()), timeout_ms=1000) == []

    @pytest.mark.parametrize("settings", [{"sleep_ms": 1000}, {"wait": wait(timeout_ms=1000)}])
    def test_a_wait_that_the_run_does_not_live_to_see_the_end_of(self, settings: dict[str, Json]) -> None:
        """The run's own time began earlier, so an equal bound is over first."""
        assert self.found(step("a", **settings), timeout_ms=1001) == []
        assert self.found(step("a", **settings), timeout_ms=1000) == [
            ("wait-outlives-run", "it waits 1000 ms, and the whole run has 1000 ms")
        ]

    def test_a_time_out_that_is_never_taken_is_named(self) -> None:
        never = step("a", wait=wait(timeout_ms=9, on_timeout="end"))
        ((_, message),) = self.found(never, timeout_ms=5)
        assert message.endswith(", so that it never goes to 'end'")

    def test_settings_of_code_that_is_never_called(self) -> None:
        idle: dict[str, Json] = {
            "retries": RetryPolicy.none(),
            "idempotent": False,
            "timeout_ms": 5,
            "branches": ("a",),
            "compensation_retries": RetryPolicy.none(),
            "compensate_on_failure": True,
            "undo_idempotent": False,
            "pivot": True,
        }
        assert self.found(step("a", sleep_ms=1, max_visits=2, **idle)) == [
            ("wait-says-too-much", f"the host does it, and it states {', '.join(idle)}")
        ]
        assert self.found(step("a", sleep_ms=1, retry_on=("X",)))[0][1].endswith("retry_on")
        assert self.found(step("a", sleep_ms=1), retry_on=("X",)) == []


class TestWaitsSideBySide:
    """§9: they share the queue, and cannot share the key."""

    def codes(self, left: StepDefinition, right: StepDefinition) -> list[str]:
        fork = step("a", next=(left.name, right.name), join=JoinDefinition(at="d"))
        definition = workflow(fork, left, right, step("d"))
        return [one.message for one in check_waits(definition, "order@1")]

    def test_one_key_is_an_error(self) -> None:
        left, right = step("b", wait=wait(), next="d"), step("c", wait=wait(), next="d")
        assert self.codes(left, right) == ["steps b and c wait side by side for 'approved', both into 'approved'"]

    def test_keys_of_their_own_are_fine(self) -> None:
        left, right = step("b", wait=wait(into="x"), next="d"), step("c", wait=wait(), next="d")
        assert self.codes(left, right) == []

    def test_one_after_the_other_is_fine(self) -> None:
        assert list(check_waits(workflow(step("a", wait=wait()), step("b", wait=wait())), "order@1")) == []

    def test_a_step_that_both_branches_come_to(self) -> None:
        fork = step("a", next=("b", "c"), join=JoinDefinition(at="d"))
        both = step("e", wait=wait(), next="d")
        definition = workflow(fork, step("b", next="e"), step("c", next="e"), both, step("d"))
        assert [one.code for one in check_waits(definition, "order@1")] == ["waits-share-key"]


class TestChildren:
    def codes(self, **children: tuple[str, ...]) -> list[tuple[str, str]]:
        """Of workflows by name, each with the workflows that it runs."""
        definitions = [
            WorkflowDefinition(id=name, steps=(step("a"), *(step(f"run-{one}", workflow=one) for one in runs)))
            for name, runs in children.items()
        ]
        return codes(list(check_children(registry(plugin(Calls().run_step, *definitions)))))

    def test_a_tree_is_fine(self) -> None:
        assert self.codes(order=("ship", "bill"), ship=("label",), bill=("label",), label=()) == []

    def test_what_nobody_serves(self) -> None:
        assert self.codes(order=("ship",)) == [("child-unserved", "order@1, step run-ship")]

    def test_a_cycle_is_told_of_each_workflow_in_it_and_of_no_other(self) -> None:
        assert self.codes(order=("ship",), ship=("label",), label=("ship",)) == [
            ("child-cycle", "ship@1"),
            ("child-cycle", "label@1"),
        ]

    def test_a_workflow_that_runs_itself(self) -> None:
        assert self.codes(order=("order",)) == [("child-cycle", "order@1")]

    def test_a_sub_workflow_is_no_wait(self) -> None:
        assert policies(workflow="ship") == []


class TestUndo:
    @staticmethod
    def found(*steps: StepDefinition, has_undo: bool, stated: tuple[str, ...] = ()) -> list[str]:
        found = check_undo(workflow(*steps), "order@1", has_undo=has_undo, stated=stated)
        return [f"{one.code}: {one.message}" for one in found]

    def test_a_plugin_that_undoes_and_steps_that_do_not_say(self) -> None:
        assert self.found(step("a"), step("b"), has_undo=True) == [
            "undo-of-failed-unsaid: compensate_on_failure is not stated for a, b"
        ]

    def test_what_the_config_states_is_said(self) -> None:
        assert self.found(step("a"), step("b"), has_undo=True, stated=("a", "b")) == []
        assert self.found(step("a"), step("b"), has_undo=True, stated=("a",)) == [
            "undo-of-failed-unsaid: compensate_on_failure is not stated for b"
        ]

    def test_a_workflow_that_says_it_of_one_step_is_thought_through(self) -> None:
        assert self.found(step("a", compensate_on_failure=True), step("b"), has_undo=True) == []

    def test_no_undo_at_all_is_told_where_something_can_be_left(self) -> None:
        assert self.found(step("a"), has_undo=False) == []
        assert self.found(step("a"), step("b"), has_undo=False) == ["no-undo: the plugin has no compensate_step"]

    def test_waits_have_nothing_to_undo(self) -> None:
        waits = step("w", wait=wait()), step("s", sleep_ms=1)
        assert self.found(step("a"), *waits, has_undo=False) == []
        assert self.found(*waits, has_undo=True) == []


class TestLive:
    """P49: live runs against what would be served."""

    old = workflow(step("a"), step("b", idempotent=False))
    new = workflow(step("a"), step("c"))

    def found(self, live: list[tuple[str, int, str, int]], *, kept: bool = True) -> list[Finding]:
        known = {("order", 1, self.old.digest): self.old} if kept else {}
        return list(check_live(live, {("order", 1): self.new}, known))

    def test_the_same_graph(self) -> None:
        assert self.found([("order", 1, self.new.digest, 3)]) == []

    def test_another_graph_is_an_error_with_the_difference(self) -> None:
        (one,) = self.found([("order", 1, self.old.digest, 3)])
        assert (one.code, one.severity, one.where) == ("live-graph-changed", Severity.ERROR, "order@1")
        assert one.message == "3 runs are live on another graph: step 'b' is gone; step 'c' is new"
        assert "new version" in one.mend

    def test_another_graph_of_which_nothing_is_known(self) -> None:
        (one,) = self.found([("order", 1, "0123", 1)], kept=False)
        assert one.message == "1 run is live on another graph: its old graph is not known"

    def test_a_version_that_nobody_serves(self) -> None:
        found = self.found([("order", 2, "x", 1), ("gone", 1, "y", 5)])
        assert [(one.code, one.severity, one.where) for one in found] == [
            ("live-unserved", Severity.WARNING, "gone@1"),
            ("live-unserved", Severity.WARNING, "order@2"),
        ]


class TestPlan:
    """`plan` (semantics §10): what a config means for each version that is served or has live runs."""

    OLD = workflow(step("a"), step("b"))

    def plan(self, now: WorkflowDefinition | None, *, live: int = 2, kept: bool = True) -> list[VersionPlan]:
        old = self.OLD
        of_live = [(old.id, old.version, old.digest, live)] if live else []
        served = {} if now is None else {(now.id, now.version): now}
        return plan_versions(of_live, served, {(old.id, old.version, old.digest): old} if kept else {})

    @pytest.mark.parametrize(
        ("now", "change", "lines"),
        [
            (OLD, Change.NONE, []),
            (
                workflow(step("a", retries=RetryPolicy(max_attempts=5)), step("b"), timeout_ms=9),
                Change.POLICY,
                ["step 'a': retries.max_attempts was 3; it is 5", "timeout_ms was 0; it is 9"],
            ),
            (workflow(step("a")), Change.GRAPH, ["step 'b' is gone"]),
            (None, Change.UNSERVED, ["no version of it can be started from now on"]),
        ],
    )
    def test_live_runs(self, now: WorkflowDefinition | None, change: Change, lines: list[str]) -> None:
        assert self.plan(now) == [VersionPlan(workflow="order", version=1, live=2, change=change, lines=lines)]

    def test_the_same_graph_without_live_runs(self) -> None:
        (plan,) = self.plan(workflow(step("a", timeout_ms=5), step("b")), live=0)
        assert (plan.change, plan.live, plan.lines) == (
            Change.POLICY,
            0,
            ["step 'a': timeout_ms was 60000; it is 5"],
        )

    def test_a_new_version_beside_live_runs_of_the_old(self) -> None:
        new = workflow(step("a"), version=2)
        served = {("order", 1): self.OLD, ("order", 2): new}
        old, fresh = plan_versions(
            [("order", 1, self.OLD.digest, 1)], served, {("order", 1, self.OLD.digest): self.OLD}
        )
        assert (old.change, fresh.change) == (Change.NONE, Change.NEW)
        assert fresh.lines == ["starts that name no version take it from now on"]

    @pytest.mark.parametrize(
        ("gone", "lines"), [(1, []), (3, ["starts that name no version take 2 from now on"])], ids=["older", "highest"]
    )
    def test_a_version_that_goes_may_change_what_is_started(self, gone: int, lines: list[str]) -> None:
        served = {("order", 2): workflow(step("a"), version=2), ("other", 9): workflow(step("a"), version=9)}
        plans = plan_versions([("order", gone, "x", 1)], served, {})
        assert [plan.lines for plan in plans if plan.change is Change.UNSERVED] == [lines]

    def test_a_graph_that_is_not_known_any_more(self) -> None:
        (plan,) = self.plan(workflow(step("x")), kept=False)
        assert (plan.change, plan.lines) == (Change.GRAPH, ["its old graph is not known"])


class TestExamine:
    def test_the_texts_config_with_the_reference_plugin(self, tmp_path: Path) -> None:
        """Nothing to say of what is shipped, not even strictly."""
        found = report(tmp_path, SPEC, strict=True)
        assert (found.plugins, found.workflows, found.findings) == (["workflow-pg"], ["checkout@1"], [])
        assert found.config == str(tmp_path / "bext.config.toml")

    def test_no_config(self, tmp_path: Path) -> None:
        examined = examine(tmp_path / "nothing.toml")
        assert (examined.config, examined.registry) == (None, None)
        found = make_report(examined, strict=False)
        assert found.config == str(tmp_path / "nothing.toml")
        (one,) = found.findings
        assert (one.code, one.where, one.message) == (
            "config-invalid",
            str(tmp_path / "nothing.toml"),
            "there is no such file",
        )

    def test_every_problem_of_a_config(self, tmp_path: Path) -> None:
        found = report(tmp_path, "[host]\npoll_ms = 0\nzzz = 1\n").findings
        file = tmp_path / "bext.config.toml"
        assert codes(found) == [("config-invalid", f"{file}: host.poll_ms"), ("config-invalid", f"{file}: host.zzz")]

    def test_no_plugins(self, tmp_path: Path) -> None:
        assert [one.code for one in report(tmp_path, "").findings] == ["no-plugins"]

    def test_every_plugin_that_fails(self, tmp_path: Path, install: Install) -> None:
        install("1 / 0", name="broken", distribution="acme-broken")
        install()
        text = f'{SHOP}[[plugins]]\nname = "broken"\n[[plugins]]\nname = "nothing-like-it"\n'
        found = report(tmp_path, text)
        assert found.plugins == ["shop"]
        assert codes(found.findings) == [
            ("plugin-invalid", "plugin broken"),
            ("plugin-invalid", "plugin nothing-like-it"),
            ("no-undo", "order@1"),
        ]

    def test_an_overlay_that_does_not_fit(self, tmp_path: Path, install: Install) -> None:
        install()
        text = f'{SHOP}[[plugins.workflows]]\nid = "order"\nsteps = [{{ name = "other" }}]\n'
        found = report(tmp_path, text).findings
        file = tmp_path / "bext.config.toml"
        assert codes(found) == [("config-invalid", f"{file}: plugins[0].workflows[0].steps")]

    def test_a_plugin_with_nothing_to_serve(self, tmp_path: Path, install: Install) -> None:
        install(re.sub(r"return \[.*", "return []", PLUGIN))
        assert codes(report(tmp_path, SHOP).findings) == [("serves-nothing", "plugin shop")]

    def test_strict_makes_errors_of_warnings(self, tmp_path: Path, install: Install) -> None:
        install(PLUGIN + "\n    @hookimpl\n    def compensate_step(self, run, step_name): ...\n")
        (one,) = report(tmp_path, SHOP).findings
        assert (one.code, one.severity) == ("undo-of-failed-unsaid", Severity.WARNING)
        (one,) = report(tmp_path, SHOP, strict=True).findings
        assert one.severity is Severity.ERROR

    def test_stating_it_in_the_config_answers_it(self, tmp_path: Path, install: Install) -> None:
        install(PLUGIN + "\n    @hookimpl\n    def compensate_step(self, run, step_name): ...\n")
        steps = ", ".join(f'{{ name = "{name}", compensate_on_failure = false }}' for name in ("pack", "ship"))
        text = f'{SHOP}[[plugins.workflows]]\nid = "order"\nsteps = [{steps}]\n'
        assert report(tmp_path, text, strict=True).findings == []

    def test_the_gravest_come_first_and_the_stores_are_among_them(self, tmp_path: Path, install: Install) -> None:
        install()
        examined = examine(write(tmp_path, SHOP))
        further = check_live([("order", 1, "old", 1), ("gone", 1, "x", 1)], {("order", 1): TestLive.new}, {})
        found = make_report(examined, strict=False, further=further).findings
        assert [one.code for one in found] == ["live-graph-changed", "live-unserved", "no-undo"]


def test_codes_are_documented() -> None:
    for code, known in CODES.items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", code)
        assert known.meaning.endswith(".")
        assert known.mend.endswith(".")


def test_every_code_is_used() -> None:
    """A code that nothing finds any more goes from the table."""
    sources = Path(__file__).parents[2] / "bext_workflow" / "checks"
    used = "".join(file.read_text() for file in sources.glob("*.py") if file.name != "codes.py")
    assert {code for code in CODES if f'"{code}"' not in used} == set()
