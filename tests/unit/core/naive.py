"""A naive model of a run: semantics §3–§5, §7 and §9 in plain lists, for workflows whose steps stand in a row.

Read it beside docs/semantics.md. It knows nothing of the core: no events, no journal, no branches; a run has *lines*,
one, or two between a fork and its join. What it leaves out (pivots, loops, maps, `any`, sub-workflows) others model.
"""

from __future__ import annotations

from dataclasses import dataclass, field

RETRY_MS = 1000
NAP_MS = 500
PATIENCE_MS = 2000
UNDO_TRIES = 10
UNDO_WAITS_MS = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000)

WORKS, RETRIES, WAITS, DOUBT, FAILED, STOPPED = "works", "retries", "waits", "doubt", "failed", "stopped"


@dataclass
class Step:
    """`kind`: plain, charge (not idempotent), ask (waits for a signal), nap, fork (into two plain steps)."""

    name: str
    kind: str
    tries: int = 1
    own: bool = False
    patient: bool = True

    @property
    def hosted(self) -> bool:
        return self.kind in ("ask", "nap")


@dataclass
class Line:
    """One line of progress. `calls`: its attempt is under way in a live host. `recorded`: attempts are written."""

    step: Step
    at: str
    attempt: int = 1
    spent: int = 0
    due: int = 0
    calls: bool = False
    recorded: bool = False
    acted: bool = False


@dataclass
class Model:
    """Says what a run must look like after each thing that happens to it."""

    steps: list[Step]
    now: int
    lines: list[Line] = field(default_factory=list)
    place: int = 0
    arrived: int = 0
    status_: str = ""
    context: dict[str, int] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)
    own: list[str] = field(default_factory=list)
    walk: list[str] | None = None
    undo_attempt: int = 1
    undo_spent: int = 0
    undo_due: int = 0
    undo_failed: bool = False
    undo_closed: bool = False
    stop: str = ""
    stop_compensates: bool = False
    paused: bool = False
    signals: int = 0
    late: int = 0
    ids: set[str] = field(default_factory=set)
    _inside: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._enter()
        self.settle()

    # What the world sees

    @property
    def status(self) -> str:
        """§4."""
        if self.status_:
            return self.status_
        if self.paused:
            return "SUSPENDED"
        if self.walk is not None:
            return "COMPENSATING"
        states = [line.at for line in self.lines if line.at not in (FAILED, STOPPED)]
        if any(at in (WORKS, RETRIES) for at in states) or not states:
            return "RUNNING"
        return "SUSPENDED" if DOUBT in states else "WAITING"

    @property
    def left(self) -> list[str]:
        """What an ended run has done and not undone."""
        if self.status_ not in ("FAILED", "CANCELLED"):
            return []
        return [name for name in self.done if not self._of(name).hosted] + self.own

    def due_calls(self) -> set[tuple[str, str, int]]:
        """What a host is to call, or is calling, now."""
        if self.status_ or self.paused:
            return {(line.step.name, "step", line.attempt) for line in self.lines if line.calls}
        if self.walk is not None:
            return {(self.walk[0], "undo", self.undo_attempt)} if self.walk and self.undo_due <= self.now else set()
        called = set()
        for line in self.lines:
            begins = line.at in (WORKS, RETRIES) and line.due <= self.now and not self.stop and not line.step.hosted
            if line.calls or begins:
                called.add((line.step.name, "step", line.attempt))
        return called

    # What happens

    def outcome(self, name: str, end: str) -> None:
        """An attempt ended: done, retry, fail, leave, raised or timeout (§2, §3)."""
        line = self._line(name)
        line.calls = False
        unknown = end in ("raised", "timeout")
        if end == "done":
            self._complete(line, {name: line.attempt})
        elif unknown and line.step.kind == "charge":
            line.at = DOUBT
        elif end in ("retry", "timeout"):
            line.acted = line.acted or unknown
            self._try_again(line)
        else:
            self._fail(line, compensate=end != "leave", own=line.step.own and (line.acted or unknown))
        self.settle()

    def answer(self, name: str, action: str) -> None:
        """A person answers a doubt (§5)."""
        line = self._line(name)
        if action == "done":
            self._complete(line, {name: -1})
        elif action == "not_done":
            line.at = STOPPED if self.stop else WORKS
            line.due = 0
        else:
            self._fail(line, compensate=True, own=action == "fail_undo")
        self.settle()

    def undo(self, end: str) -> None:
        """An undo ended: done, retry or fail (§5)."""
        assert self.walk is not None
        if end == "done":
            self._off_the_walk()
        elif end == "retry" and self.undo_spent + 1 < UNDO_TRIES:
            self.undo_attempt, self.undo_due = self.undo_attempt + 1, self.now + UNDO_WAITS_MS[self.undo_spent]
            self.undo_spent += 1
        else:
            self.undo_failed, self.status_ = True, "FAILED"

    def answer_undo(self, action: str) -> None:
        """A person answers a failed undo."""
        assert self.walk is not None
        self.undo_failed = False
        if action == "close":
            self.undo_closed = True
            return
        self.status_ = ""
        self.undo_attempt, self.undo_spent, self.undo_due = self.undo_attempt + 1, 0, 0
        if action == "undone":
            self._off_the_walk()

    def cancel(self, *, compensate: bool) -> bool:
        """A person stops it; whether that is possible (§5, P18)."""
        if self.status_ == "FAILED":
            if self.walk is not None or not self.left or not compensate:
                return False
            self.stop, self.stop_compensates, self.status_ = "cancel", True, ""
            self._walk_back()
            return True
        if self.status_ or self.walk is not None or (self.stop and self.stop_compensates is not compensate):
            return False
        self.stop, self.stop_compensates, self.paused = "cancel", compensate, False
        self.settle()
        return True

    def retry(self) -> bool:
        """A person sets a FAILED run going again; whether that is possible (§5)."""
        if self.status_ != "FAILED" or self.undo_closed:
            return False
        if self.undo_failed:
            self.answer_undo("retry")
            return True
        self.status_, self.stop, self.own = "", "", []
        for line in self.lines:
            self._again(line)
        self._join()
        self.settle()
        return True

    def pause(self) -> bool:
        if self.status_ or self.paused:
            return False
        self.paused = True
        return True

    def resume(self) -> bool:
        if not self.paused:
            return False
        self.paused = False
        self.settle()
        return True

    def signal(self, id_: str) -> bool:
        """A signal `go` is accepted and taken at once; whether it may be sent (§9)."""
        if id_ in self.ids:
            return True
        if self.status_ or self.walk is not None or self.stop:
            return False
        self.ids.add(id_)
        for line in self.lines:
            if line.at == WAITS and line.step.kind == "ask":
                if line.due and line.due <= self.now:
                    self.late += 1
                    return True
                self._complete(line, {"go": 0})
                self.settle()
                return True
        self.signals += 1
        return True

    def passes(self, ms: int) -> None:
        """Time passes."""
        self.now += ms
        self.settle()

    def crash(self) -> None:
        """The host dies, and another one takes over (§2, §6)."""
        for line in self.lines:
            running, line.calls = line.calls, False
            if line.step.kind == "charge" and running:
                line.at = DOUBT
            elif line.at in (WORKS, RETRIES) and not line.step.hosted and line.step.kind != "charge":
                # Of first attempts nothing is written: it could have been running, as far as anybody knows.
                line.acted = line.acted or running or not line.recorded
        self.settle()

    def begins(self, name: str) -> None:
        """A host calls the step."""
        self._line(name).calls = True

    def settle(self) -> None:
        """What the host does by itself: waits begin and end, lines settle, the walk back starts."""
        while not self.status_ and self.walk is None:
            if self.stop and all(line.at in (FAILED, STOPPED) for line in self.lines):
                self._conclude()
            elif self.paused or not self._one_move():
                return

    # How

    def _one_move(self) -> bool:
        for line in self.lines:
            if self.stop and not line.calls and line.at in (WORKS, RETRIES, WAITS):
                line.attempt -= line.at != WAITS  # the attempt that would be next is not made
                line.at = STOPPED
                if line.acted and line.step.own and not line.step.hosted:
                    self.own.append(line.step.name)
                return True
            if line.step.hosted and line.at == WORKS:
                self._open(line)
                return True
            if line.at == WAITS and line.due and line.due <= self.now:
                self._time_over(line)
                return True
        return False

    def _open(self, line: Line) -> None:
        line.at, line.due = WAITS, self._until(line.step)
        if line.step.kind == "ask" and self.signals:
            self.signals -= 1
            self._complete(line, {"go": 0})

    def _until(self, step: Step) -> int:
        """When the wait that begins now is over; 0: it has no bound."""
        if step.kind == "nap":
            return self.now + NAP_MS
        return 0 if step.patient else self.now + PATIENCE_MS

    def _time_over(self, line: Line) -> None:
        if line.step.kind == "nap":
            self._complete(line, {})
        else:
            self._fail(line, compensate=True, own=False)

    def _complete(self, line: Line, updates: dict[str, int]) -> None:
        self.done.append(line.step.name)
        updates = {} if line.step.kind == "nap" else updates
        inside = self.steps[self.place].kind == "fork" and line.step is not self.steps[self.place]
        if inside:
            self.lines.remove(line)
            self.arrived += 1
            self._inside.update(updates)
            if not self.stop:
                self._join()
            return
        self.context.update(updates)
        if self.stop:
            self._stands_before_the_next(line)
        else:
            self._advance(line)

    def _advance(self, line: Line) -> None:
        self.lines.remove(line)
        if line.step.kind == "fork":
            self.arrived, self._inside = 0, {}
            self.lines += [Line(Step(f"{line.step.name}-{side}", "plain"), WORKS) for side in ("l", "r")]
            return
        self.place += 1
        self._enter()

    def _stands_before_the_next(self, line: Line) -> None:
        """Under a stop nothing new begins: what would be next is entered, and no more."""
        self._advance(line)
        for fresh in self.lines:
            if fresh.at == WORKS and fresh is not line:
                fresh.at, fresh.attempt = STOPPED, 0

    def _enter(self) -> None:
        if self.place == len(self.steps):
            if not self.stop:
                self._ends("COMPLETED")
            return
        self.lines.append(Line(self.steps[self.place], WORKS))

    def _join(self) -> None:
        if self.arrived == 2:
            self.arrived = 0
            self.context.update(self._inside)
            self.place += 1
            self._enter()

    def _try_again(self, line: Line) -> None:
        if self.stop:
            line.at = STOPPED
            if line.step.own and line.acted:
                self.own.append(line.step.name)
        elif line.spent + 1 >= line.step.tries:
            self._fail(line, compensate=True, own=line.step.own and line.acted)
        else:
            line.at, line.due, line.recorded = RETRIES, self.now + RETRY_MS, True
            line.attempt, line.spent = line.attempt + 1, line.spent + 1

    def _fail(self, line: Line, *, compensate: bool, own: bool) -> None:
        if own:
            self.own.append(line.step.name)
        if self.stop:
            line.at = STOPPED
            if self.stop == "failure" and compensate:
                self.stop_compensates = True
            return
        line.at, line.acted = FAILED, line.acted or own
        if any(other.at not in (FAILED, STOPPED) for other in self.lines):
            self.stop, self.stop_compensates = "failure", compensate
        elif compensate:
            self._walk_back()
        else:
            self._ends("FAILED")

    def _conclude(self) -> None:
        """Every line has settled under the stop."""
        nothing = not self.done and not self.own
        if self.stop == "failure" and not self.stop_compensates:
            self._ends("FAILED")
        elif self.stop_compensates and not (nothing and self.stop == "cancel"):
            self._walk_back()
        else:
            self._ends("CANCELLED")

    def _walk_back(self) -> None:
        self.walk = self.own[::-1] + [name for name in reversed(self.done) if not self._of(name).hosted]
        self.lines = []
        self.undo_attempt, self.undo_spent, self.undo_due = 1, 0, 0
        if not self.walk:
            self._ends("COMPENSATED")

    def _off_the_walk(self) -> None:
        assert self.walk is not None
        self.undone.append(self.walk.pop(0))
        if self.own:
            self.own.pop()
        else:
            while self._of(self.done.pop()).hosted:
                pass
        self.undo_attempt, self.undo_spent, self.undo_due = 1, 0, 0
        if not self.walk:
            self._ends("COMPENSATED")

    def _ends(self, status: str) -> None:
        self.status_, self.paused = status, False
        if status == "COMPENSATED":
            self.done = []

    def _again(self, line: Line) -> None:
        """The same visit again, with its budget renewed; of a wait its whole time."""
        if line.step.hosted and line.attempt:
            line.at, line.due = WAITS, self._until(line.step)
            return
        line.at, line.attempt, line.spent, line.due = WORKS, line.attempt + 1, 0, 0

    def _line(self, name: str) -> Line:
        return next(line for line in self.lines if line.step.name == name)

    def _of(self, name: str) -> Step:
        return next((step for step in self.steps if step.name == name), Step(name, "plain"))
