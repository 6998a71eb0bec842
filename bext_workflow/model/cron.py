"""When a cron line comes round: planned instants, in ms since the epoch, of local times in a time zone (P24).

cronsim finds the local times that match; which instants those are is decided here, by Debian's rule. A line whose
minute and hour are fixed names times of the day: one that is skipped when the clocks go forward comes right after the
gap, one that is repeated when they go back comes the first time only. A line with a `*` at the start of its minute or
its hour is a rhythm: it comes at every minute that really passes and matches, repeated ones too, skipped ones never.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

CRON_RULE = "minute hour day-of-month month day-of-week"
MAX_LINE = 200

_FIELDS = 5
_DAY, _MINUTE, _SECOND = timedelta(days=1), timedelta(minutes=1), timedelta(seconds=1)
_FIRST_SPAN_MS = 3_600_000
_WIDER = 4
_SOME_DAY = datetime(2001, 1, 1, tzinfo=UTC)


class Cron:
    """A cron line of five fields in a time zone. Raises `ValueError` for a line or a zone that is none."""

    def __init__(self, line: str, timezone: str) -> None:
        self._line = line
        self._zone = zone_of(timezone)
        fields = line.split()
        if len(fields) != _FIELDS or len(line) > MAX_LINE:
            raise ValueError(f"{line[:MAX_LINE]!r} is not a cron line of five fields: {CRON_RULE}")
        self._rhythm = fields[0].startswith("*") or fields[1].startswith("*")
        try:
            comes = self._next(_SOME_DAY)
        except CronSimError as error:
            raise ValueError(f"{line!r} is not a cron line: {str(error).lower()}") from None
        if comes is None:
            raise ValueError(f"{line!r} never comes")

    def after(self, at_ms: int) -> Iterator[int]:
        """The instants that come after `at_ms`, one by one, without end."""
        come = self._next(_instant(at_ms))
        while come is not None:
            yield _ms(come)
            come = self._next(come)

    def last(self, after_ms: int, until_ms: int, *, most: int) -> tuple[int, ...]:
        """The last `most` instants after `after_ms` and not after `until_ms`, in order."""
        span = _FIRST_SPAN_MS
        while True:
            start = max(after_ms, until_ms - span)
            found = tuple(takewhile(lambda at: at <= until_ms, self.after(start)))
            if len(found) >= most or start == after_ms:
                return found[-most:]
            span *= _WIDER

    def local(self, at_ms: int) -> str:
        """The instant as people of the zone read it: RFC 3339 with the zone's offset."""
        return _instant(at_ms).astimezone(self._zone).isoformat(timespec="seconds")

    def _next(self, after: datetime) -> datetime | None:
        return self._next_of_rhythm(after) if self._rhythm else self._next_fixed(after)

    def _next_fixed(self, after: datetime) -> datetime | None:
        for local in CronSim(self._line, _naive(after.astimezone(self._zone))):
            instant = self._first_instant_of(local)
            if instant > after:
                return instant
        return None

    def _next_of_rhythm(self, after: datetime) -> datetime | None:
        """Looks with the offset in force; where the offset changes first, looks on from there with the new one."""
        start = after
        while True:
            offset = self._offset(start + _SECOND)
            local = next(CronSim(self._line, _naive(start + offset)), None)
            if local is None:
                return None
            instant = local.replace(tzinfo=UTC) - offset
            change = self._change(start + _SECOND, instant)
            if change is None:
                return instant
            start = change - _SECOND

    def _first_instant_of(self, local: datetime) -> datetime:
        """Of a repeated time the first instant; of a skipped one the end of the gap."""
        early, late = (local.replace(tzinfo=self._zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        if early <= late:
            return early
        return self._change(late, early) or early

    def _change(self, start: datetime, end: datetime) -> datetime | None:
        """The first instant after `start` and not after `end` that has another offset than `start`."""
        offset = self._offset(start)
        while start < end:
            step = min(start + _DAY, end)
            if self._offset(step) != offset:
                return self._bisected(start, step, offset)
            start = step
        return None

    def _bisected(self, before: datetime, after: datetime, offset: timedelta) -> datetime:
        while after - before > _SECOND:
            middle = before + (after - before) // _SECOND // 2 * _SECOND
            before, after = (middle, after) if self._offset(middle) == offset else (before, middle)
        return after

    def _offset(self, instant: datetime) -> timedelta:
        return instant.astimezone(self._zone).utcoffset() or timedelta()


def zone_of(timezone: str) -> ZoneInfo:
    """The zone of that name. Raises `ValueError`."""
    try:
        return ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{timezone[:100]!r} is not a time zone") from None


def _naive(moment: datetime) -> datetime:
    return moment.replace(tzinfo=None)


def _instant(at_ms: int) -> datetime:
    """The second of an instant."""
    return datetime.fromtimestamp(at_ms // 1000, UTC)


def _ms(instant: datetime) -> int:
    return int(instant.timestamp()) * 1000
