"""The prover finds what authors get wrong, names the shortest way there, and finds nothing where nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bext_workflow import EffectLedger, Rehearsal
from bext_workflow.errors import UsageError
from bext_workflow.service.proof import Proof
from bext_workflow.testing import prove
from bext_workflow.testing.prover.faults import FAULTS, Case, Choice, Fault, FaultKind, Path, read_case
from tests.integration.kit import parcels, planted
from tests.integration.kit.planted import GUESTS, Trip, rehearsing

MISTAKES = [
    (planted.UndoMissing, "left-behind", "room", "order@room=cancel"),
    (planted.UndoRepeated, "undone-twice", "room", "order@room=cancel,room:compensate=crash_after_effect"),
    (planted.KeyIgnored, "done-twice", "flight", "order@flight=crash_after_effect"),
    (planted.ContextMutated, "context-mutated", "flight", "order"),
    (planted.EffectBeforeRaise, "left-behind", "room", "full"),
    (planted.EffectUnsaid, "left-behind", "room", "order@room=raise_after_effect"),
    (planted.UndoReadsWhatIsNotThere, "raises", "flight:compensate", "order@flight=raise"),
    (planted.WrongCompensationKey, "left-behind", "room", "order@room=cancel"),
    (planted.WrongCompensationKey, "undone-without-done", "room:compensate", "order@room=cancel"),
    (planted.ReportRepeated, "done-twice", "complete#1", "order@complete#1=crash_after_effect"),
    (planted.KeptInMemory, "left-behind", "flight", "full@flight=crash_after_checkpoint"),
    (planted.VerifyBlind, "done-twice", "room", "order@room=crash_after_effect"),
    (planted.UndoneTooSoon, "undone", "flight", "order"),
    (planted.FirstAttemptOnly, "status", "", "order@flight=retry_once"),
    (planted.UndoRefusesNothing, "raises", "flight:compensate", "order@flight=raise"),
]
"""A plugin with a mistake, the promise that it breaks, by which call, and a case that shows it."""

each_mistake = pytest.mark.parametrize(
    ("mistake", "promise", "where", "case"), MISTAKES, ids=lambda given: getattr(given, "__name__", None)
)


def only_the_order(plugin: type[Trip]) -> Callable[[str], Rehearsal]:
    """One path, so that a whole proof is quick."""

    def rehearse(_: str) -> Rehearsal:
        ledger = EffectLedger(stays=("mail",))
        return Rehearsal(ledger=ledger, plugin=lambda: plugin(ledger), contexts={"order": GUESTS})

    return rehearse


def broken(proof: Proof) -> set[tuple[str, str]]:
    return {(one.promise, one.where) for one in proof.broken}


@each_mistake
def test_each_mistake_shows_in_one_case(mistake: type[Trip], promise: str, where: str, case: str) -> None:
    assert (promise, where) in broken(prove(rehearse=rehearsing(mistake), replay=case))
    assert prove(rehearse=rehearsing(Trip), replay=case).holds


@pytest.mark.tier("ci")
@each_mistake
def test_each_mistake_is_found(mistake: type[Trip], promise: str, where: str, case: str) -> None:
    """And its shortest case, replayed, breaks the same promise."""
    proof = prove(rehearse=rehearsing(mistake))
    assert (promise, where) in broken(proof), proof
    shortest = proof.broken[0]
    assert shortest.faults <= len(read_case(case).faults)
    assert (shortest.promise, shortest.where) in broken(prove(rehearse=rehearsing(mistake), replay=shortest.case))


def test_every_fault_at_every_call() -> None:
    """The product: nothing is sampled among single faults."""
    proof = prove(rehearse=only_the_order(Trip))

    assert proof.holds, proof
    assert [path.steps for path in proof.paths] == [["flight", "room", "mail"]]
    for explored, sites in ((proof.steps, 3), (proof.undos, 3), (proof.endings, 1)):
        assert (explored.sites, explored.impossible) == (sites, 0)
        assert explored.runs == explored.sites * explored.faults
    assert proof.runs == 1 + proof.steps.runs + proof.undos.runs + proof.endings.runs
    assert proof.coverage.effects == proof.coverage.undone == ["flight: flight", "room: room"]
    assert (proof.coverage.percent, proof.coverage.stays) == (100, ["mail"])
    assert "3 steps × 13 faults = 39" in str(proof)
    assert "trip@1 holds" in str(proof)


@pytest.mark.tier("ci")
def test_pairs_of_faults_as_far_as_the_budget_goes() -> None:
    proof = prove(rehearse=rehearsing(Trip), budget=200)
    assert proof.holds, proof
    assert (proof.pairs, proof.pairs_there > 1000) == (200, True)


def test_the_story_of_a_replay() -> None:
    story = "\n".join(prove(rehearse=rehearsing(Trip), replay="order@room=crash_after_effect").story)
    for line in (
        "call     run_step room, attempt 1",
        "effect   does room with the key room",
        "effect   takes back room of room",
        "fault    room=crash_after_effect",
        "crash    the host dies",
        "durable  incident opened  room  in_doubt",
        "answer   in_doubt of room: fail_undo",
        "call     compensate_step room:compensate, attempt 1",
        "durable  run compensated",
    ):
        assert line in story


def test_a_lease_that_is_lost_while_a_step_runs() -> None:
    """The call of the host that lost it comes late, with the same key; its result is not taken."""
    proof = prove(rehearse=rehearsing(Trip), replay="order@flight=lost_lease")
    story = "\n".join(proof.story)
    assert proof.holds
    assert story.count("call     run_step flight") == 2
    assert story.count("durable  step completed  flight") == 1
    assert story.index("durable  step completed  flight") < story.index("late     the call")


def test_a_plugin_that_looks_what_became_of_an_attempt_in_doubt() -> None:
    proof = prove(rehearse=rehearsing(planted.Verified), replay="order@room=crash_after_effect")
    assert proof.holds, proof
    assert "call     verify_step room" in proof.story
    assert "durable  run completed" in proof.story


def test_a_step_that_runs_out_of_time() -> None:
    """Another attempt would be right, and there is no time for it."""
    proof = prove(rehearse=rehearsing(planted.Bounded), replay="order@flight=time_out")
    assert proof.holds, proof
    assert "durable  run compensated" in proof.story


@pytest.mark.tier("ci")
def test_a_saga_that_verifies() -> None:
    proof = prove(rehearse=rehearsing(planted.Verified), budget=100)
    assert proof.holds, proof


# Paths


@pytest.mark.tier("ci")
def test_every_way_that_is_declared() -> None:
    """Also those that the plugin does not take by itself: another branch, a wait that runs out, a no."""
    proof = prove(workflow="choice", rehearse=parcels.rehearse)
    assert proof.holds, proof
    assert {path.name: path.steps for path in proof.paths} == {
        "two": ["pick", "air", "deliver"],
        "two+pick~sea": ["pick", "sea", "deliver"],
        "two+ask~timeout": ["pick", "air", "later"],
        "two+ask~reject": ["pick", "air"],
        "two+pick~sea+ask~timeout": ["pick", "sea", "later"],
        "two+pick~sea+ask~reject": ["pick", "sea"],
    }
    assert proof.steps.runs == proof.steps.sites * proof.steps.faults == 16 * 13
    assert proof.waits.runs == proof.waits.sites * proof.waits.faults == 6 * 3


@pytest.mark.tier("ci")
def test_forks_and_maps() -> None:
    proof = prove(workflow="fork", rehearse=parcels.rehearse, budget=50)
    assert proof.holds, proof
    (path,) = proof.paths
    assert path.steps == ["open", "left", "right", "each", "ship[0]", "ship[1]", "close"]
    assert len(proof.coverage.undone) == 6


@pytest.mark.tier("ci")
def test_a_race_and_its_loser() -> None:
    """What the loser has done is undone, and the run completes."""
    proof = prove(workflow="race", rehearse=parcels.rehearse, budget=50)
    assert proof.holds, proof
    assert proof.coverage.percent == 100


@pytest.mark.tier("ci")
def test_a_pivot() -> None:
    """Nothing is undone after it, and nothing has to be."""
    proof = prove(workflow="pivot", rehearse=parcels.rehearse, budget=50)
    assert proof.holds, proof
    assert proof.coverage.effects == ["open: open", "ship: ship"]
    assert proof.coverage.percent == 100


@pytest.mark.tier("ci")
def test_a_child() -> None:
    """Each call of the child meets each fault, too."""
    proof = prove(workflow="parent", rehearse=parcels.rehearse, budget=50)
    assert proof.holds, proof
    assert [path.steps for path in proof.paths] == [["open", "child/left", "child/right", "close"]]
    assert (proof.steps.sites, proof.undos.sites, proof.endings.sites) == (4, 4, 2)
    assert proof.coverage.percent == 100


def test_a_way_that_the_prover_takes_can_be_replayed() -> None:
    proof = prove(workflow="choice", rehearse=parcels.rehearse, replay="two+pick~sea+ask~timeout@later=fail")
    assert proof.holds, proof
    assert "wait     ask: timeout" in proof.story
    assert "call     run_step sea, attempt 1" in proof.story


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("cancel", "durable  wait ended  ask  by a stop"),
        ("crash_before_checkpoint", "restart  another host takes over"),
        ("crash_after_checkpoint", "restart  another host takes over"),
    ],
)
def test_a_wait_meets_its_faults(fault: str, says: str) -> None:
    """However often the host dies, what was sent is taken once."""
    proof = prove(workflow="choice", rehearse=parcels.rehearse, replay=f"two@ask:wait={fault}")
    story = "\n".join(proof.story)
    assert proof.holds, proof
    assert says in story
    assert story.count("durable  wait ended") == 1
    assert ("call     run_step deliver" in story) is (fault != "cancel")


# Cases


def test_the_text_of_a_case() -> None:
    case = Case(
        Path("order", (Choice("pick", "by-sea"), Choice("ask#2", "timeout"))),
        (Fault("ship[2]#3", FaultKind.LOST_LEASE), Fault("ship[2]#3:compensate", FaultKind.RAISE)),
    )
    assert str(case) == "order+pick~by-sea+ask#2~timeout@ship[2]#3=lost_lease,ship[2]#3:compensate=raise"
    assert read_case(str(case)) == case
    assert read_case("order") == Case(Path("order"))


@pytest.mark.parametrize("text", ["order@ship", "order@ship=nonsense", "order+pick"])
def test_a_text_that_is_no_case(text: str) -> None:
    with pytest.raises(UsageError, match="names no case"):
        read_case(text)


def test_every_fault_has_a_place() -> None:
    assert {kind for kinds in FAULTS.values() for kind in kinds} == set(FaultKind)


# What cannot be proven


def test_a_plugin_without_a_rehearsal() -> None:
    with pytest.raises(UsageError, match="has no hook rehearse"):
        prove(Trip(EffectLedger()))


async def test_a_proof_within_a_coroutine() -> None:
    with pytest.raises(UsageError, match="from a plain function"):
        prove(rehearse=rehearsing(Trip))


def test_a_ledger_that_is_not_new() -> None:
    ledger = EffectLedger()
    with pytest.raises(UsageError, match="has been used before"):
        prove(rehearse=lambda _: Rehearsal(ledger=ledger, plugin=lambda: Trip(ledger), contexts={"order": GUESTS}))


def test_a_context_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="has no context 'nobody'"):
        prove(rehearse=rehearsing(Trip), replay="nobody@flight=fail")


def test_a_workflow_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="serves no workflow 'cruise'"):
        prove(workflow="cruise", rehearse=rehearsing(Trip))


def test_an_undo_that_is_not_there_to_be_left_out() -> None:
    with pytest.raises(UsageError, match="trip has no step 'fligt'"):
        prove(rehearse=rehearsing(Trip), without_undo="fligt")


def test_a_plugin_of_two_workflows() -> None:
    with pytest.raises(UsageError, match="serves child, choice, fork"):
        prove(rehearse=parcels.rehearse)


def test_a_wait_that_does_not_take_what_is_sent() -> None:
    def rehearse(workflow: str) -> Rehearsal:
        ledger = EffectLedger()
        return Rehearsal(ledger=ledger, plugin=lambda: parcels.Parcels(ledger), contexts={"two": {"parcels": []}})

    with pytest.raises(UsageError, match="ask does not take what is sent"):
        prove(workflow="choice", rehearse=rehearse)
