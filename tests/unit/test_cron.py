"""When cron lines come round in zones whose clocks jump (P24)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from bext_workflow.model.cron import MAX_LINE, Cron

MADRID, NEW_YORK, LORD_HOWE = "Europe/Madrid", "America/New_York", "Australia/Lord_Howe"
KOLKATA, SAO_PAULO, APIA, CASABLANCA = "Asia/Kolkata", "America/Sao_Paulo", "Pacific/Apia", "Africa/Casablanca"
MINUTE = timedelta(minutes=1)


def ms(instant: str) -> int:
    return round(datetime.fromisoformat(instant).timestamp() * 1000)


def fires(line: str, zone: str, after: str, until: str) -> list[str]:
    """The instants between two local ones, as people of the zone read them, without year and seconds."""
    cron = Cron(line, zone)
    start, end = (ms(f"{day}T00:00:00{cron.local(ms(day + 'T00:00Z'))[19:]}") for day in (after, until))
    found = takewhile(lambda at: at < end, cron.after(start - 1000))
    return [f"{local[5:16].replace('T', ' ')}{local[19:]}" for local in map(cron.local, found)]


FIXED = [
    # Madrid: 02:00 +01 is 03:00 +02 on March 28; 03:00 +02 is 02:00 +01 on October 31.
    (MADRID, "30 2 * * *", "2027-03-27", ["03-27 02:30+01:00", "03-28 03:00+02:00", "03-29 02:30+02:00"]),
    (MADRID, "0,30 2,3 * * *", "2027-03-28", ["03-28 03:00+02:00", "03-28 03:30+02:00"]),
    (MADRID, "30 2 * * *", "2027-10-30", ["10-30 02:30+02:00", "10-31 02:30+02:00", "11-01 02:30+01:00"]),
    (MADRID, "0,30 2,3 * * *", "2027-10-31", ["10-31 " + t for t in ("02:00+02:00", "02:30+02:00", "03:00+01:00")]),
    # New York: 02:00 -05 is 03:00 -04 on March 14; 02:00 -04 is 01:00 -05 on November 7.
    (NEW_YORK, "15 2 * * *", "2027-03-13", ["03-13 02:15-05:00", "03-14 03:00-04:00", "03-15 02:15-04:00"]),
    (NEW_YORK, "15 1 * * *", "2027-11-06", ["11-06 01:15-04:00", "11-07 01:15-04:00", "11-08 01:15-05:00"]),
    (NEW_YORK, "0 2 * * *", "2027-11-06", ["11-06 02:00-04:00", "11-07 02:00-05:00", "11-08 02:00-05:00"]),
    # Lord Howe moves by 30 minutes: 02:00 +10:30 is 02:30 +11 on October 3; 02:00 +11 is 01:30 +10:30 on April 4.
    (LORD_HOWE, "10 2 * * *", "2027-10-02", ["10-02 02:10+10:30", "10-03 02:30+11:00", "10-04 02:10+11:00"]),
    (LORD_HOWE, "0 2 * * *", "2027-10-03", ["10-03 02:30+11:00", "10-04 02:00+11:00"]),
    (LORD_HOWE, "45 1 * * *", "2027-04-03", ["04-03 01:45+11:00", "04-04 01:45+11:00", "04-05 01:45+10:30"]),
    (LORD_HOWE, "0 2 * * *", "2027-04-03", ["04-03 02:00+11:00", "04-04 02:00+10:30", "04-05 02:00+10:30"]),
    # Kolkata never moves.
    (KOLKATA, "30 2 * * *", "2027-03-27", ["03-27 02:30+05:30", "03-28 02:30+05:30", "03-29 02:30+05:30"]),
    # Sao Paulo skipped midnight when it last went forward: 00:00 -03 was 01:00 -02 on November 4, 2018.
    (SAO_PAULO, "0 0 * * *", "2018-11-03", ["11-03 00:00-03:00", "11-04 01:00-02:00", "11-05 00:00-02:00"]),
    (SAO_PAULO, "0 0 * * *", "2027-11-03", ["11-03 00:00-03:00", "11-04 00:00-03:00", "11-05 00:00-03:00"]),
    # Apia skipped December 30, 2011, whole: what was planned for it came at midnight, beside that day's own.
    (APIA, "30 2 * * *", "2011-12-29", ["12-29 02:30-10:00", "12-31 00:00+14:00", "12-31 02:30+14:00"]),
    (APIA, "0 0 * * *", "2011-12-29", ["12-29 00:00-10:00", "12-31 00:00+14:00", "01-01 00:00+14:00"]),
    # Casablanca goes back for Ramadan: 03:00 +01 is 02:00 +00 on February 7; 02:00 +00 is 03:00 +01 on March 14.
    (CASABLANCA, "30 2 * * *", "2027-02-06", ["02-06 02:30+01:00", "02-07 02:30+01:00", "02-08 02:30+00:00"]),
    (CASABLANCA, "30 2 * * *", "2027-03-13", ["03-13 02:30+00:00", "03-14 03:00+01:00", "03-15 02:30+01:00"]),
]


@pytest.mark.parametrize(("zone", "line", "day", "expected"), FIXED)
def test_p24_fixed_time_comes_once_when_it_is_repeated_and_right_after_the_gap_when_it_is_skipped(
    zone: str, line: str, day: str, expected: list[str]
) -> None:
    after = (datetime.fromisoformat(day) + timedelta(days=4)).date().isoformat()
    assert fires(line, zone, day, after)[: len(expected)] == expected


RHYTHMS = [
    # The hour that is skipped is not there; the hour that is repeated is there twice.
    (MADRID, "0 * * * *", "2027-03-28", ["00:00+01:00", "01:00+01:00", "03:00+02:00", "04:00+02:00"]),
    (MADRID, "0 * * * *", "2027-10-31", ["00:00+02:00", "01:00+02:00", "02:00+02:00", "02:00+01:00", "03:00+01:00"]),
    (MADRID, "*/30 2 * * *", "2027-10-31", ["02:00+02:00", "02:30+02:00", "02:00+01:00", "02:30+01:00"]),
    (MADRID, "0 */2 * * *", "2027-03-28", ["00:00+01:00", "04:00+02:00", "06:00+02:00"]),
    (NEW_YORK, "30 * * * *", "2027-11-07", ["00:30-04:00", "01:30-04:00", "01:30-05:00", "02:30-05:00"]),
    # Half an hour: 02:00 to 02:30 is not there, 01:30 to 02:00 is there twice.
    (LORD_HOWE, "*/15 * * * *", "2027-10-03", ["01:30+10:30", "01:45+10:30", "02:30+11:00", "02:45+11:00"]),
    (LORD_HOWE, "*/15 * * * *", "2027-04-04", ["01:30+11:00", "01:45+11:00", "01:30+10:30", "01:45+10:30"]),
    # Whole hours are looked for from half past on: none of them may be jumped over.
    (LORD_HOWE, "*/20 4 * * *", "2027-10-03", ["04:00+11:00", "04:20+11:00", "04:40+11:00"]),
    (LORD_HOWE, "*/20 4 * * *", "2027-04-04", ["04:00+10:30", "04:20+10:30", "04:40+10:30"]),
    (KOLKATA, "0 */6 * * *", "2027-03-28", ["00:00+05:30", "06:00+05:30", "12:00+05:30", "18:00+05:30"]),
    (APIA, "0 */12 * * *", "2011-12-29", ["00:00-10:00", "12:00-10:00", "00:00+14:00", "12:00+14:00"]),
    (CASABLANCA, "0 * * * *", "2027-02-07", ["02:00+01:00", "02:00+00:00", "03:00+00:00"]),
]


@pytest.mark.parametrize(("zone", "line", "day", "expected"), RHYTHMS)
def test_p24_rhythm_keeps_to_the_minutes_that_really_pass(zone: str, line: str, day: str, expected: list[str]) -> None:
    after = (datetime.fromisoformat(day) + timedelta(days=3)).date().isoformat()
    found = fires(line, zone, day, after)
    first = found.index(f"{day[5:]} {expected[0]}")
    assert [fire[6:] for fire in found[first : first + len(expected)]] == expected


@pytest.mark.parametrize(
    ("zone", "line", "day", "following"),
    [
        (MADRID, "*/30 2 * * *", "2027-03-28", "2027-03-29"),
        (NEW_YORK, "*/30 2 * * *", "2027-03-14", "2027-03-15"),
        (SAO_PAULO, "*/30 0 * * *", "2018-11-04", "2018-11-05"),
    ],
)
def test_p24_rhythm_inside_a_skipped_hour_does_not_come_that_day(
    zone: str, line: str, day: str, following: str
) -> None:
    assert fires(line, zone, day, following) == []


@pytest.mark.parametrize("zone", [MADRID, NEW_YORK, LORD_HOWE, KOLKATA, SAO_PAULO, CASABLANCA])
@pytest.mark.parametrize(("line", "minutes"), [("*/15 * * * *", 15), ("* * * * *", 1)])
def test_p24_rhythm_of_minutes_keeps_its_real_spacing_over_a_switch(zone: str, line: str, minutes: int) -> None:
    for start in ("2027-02-06T20:00Z", "2027-03-13T20:00Z", "2027-03-27T20:00Z", "2027-10-02T10:00Z"):
        found = list(islice(Cron(line, zone).after(ms(start)), 12 * 60 // minutes))
        assert {later - earlier for earlier, later in pairwise(found)} == {minutes * 60_000}


# Against a reckoning minute by minute

LINES = [
    "30 2 * * *",
    "0,10,20,40 1-3 * * *",
    "5 0 28-31 * *",
    "0 3 * * 7",
    "0/20 2 * * *",
    "*/20 * * * *",
    "*/10 2-4 * * *",
    "7 */2 * * *",
    "15 * 28-31 * SUN",
]
SWITCHES = [
    (MADRID, "2027-03-28"),
    (MADRID, "2027-10-31"),
    (NEW_YORK, "2027-03-14"),
    (NEW_YORK, "2027-11-07"),
    (LORD_HOWE, "2027-10-03"),
    (LORD_HOWE, "2027-04-04"),
    (KOLKATA, "2027-03-28"),
    (SAO_PAULO, "2018-11-04"),
    (SAO_PAULO, "2018-02-18"),
    (APIA, "2011-12-30"),
    (CASABLANCA, "2027-02-07"),
    (CASABLANCA, "2027-03-14"),
]


def reckoned(line: str, zone: str, start: datetime, end: datetime) -> list[int]:
    """A clock on the wall that is looked at each minute: when does it show what, or pass it, for the first time?"""
    clock = [(at, at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)) for at in minutes(start, end)]
    shows = [shown for _, shown in clock]
    wanted = set(takewhile(lambda shown: shown <= max(shows), CronSim(line, min(shows) - MINUTE)))
    minute, hour, *_ = line.split()
    if "*" in (minute[0], hour[0]):
        return [epoch(at) for at, shown in clock if shown in wanted]
    found, furthest = [], clock[0][1] - MINUTE
    for at, shown in clock:
        if not wanted.isdisjoint(minutes(furthest + MINUTE, shown + MINUTE)):
            found.append(epoch(at))
        furthest = max(furthest, shown)
    return found


def minutes(start: datetime, end: datetime) -> Iterator[datetime]:
    while start < end:
        yield start
        start += MINUTE


def epoch(at: datetime) -> int:
    return round(at.timestamp()) * 1000


@pytest.mark.parametrize(("zone", "day"), SWITCHES)
@pytest.mark.parametrize("line", LINES)
def test_p24_lines_come_when_a_clock_on_the_wall_says_so(zone: str, day: str, line: str) -> None:
    start = datetime.fromisoformat(day).replace(tzinfo=UTC) - timedelta(hours=30)
    end = start + timedelta(hours=66)
    cron = Cron(line, zone)
    expected = reckoned(line, zone, start, end)

    assert list(takewhile(lambda at: at < epoch(end), cron.after(epoch(start - MINUTE)))) == expected
    for at in range(epoch(start), epoch(end), 7_199_000):
        following = [slot for slot in expected if slot > at][:1]
        assert list(islice(cron.after(at), len(following))) == following
    assert cron.last(epoch(start - MINUTE), epoch(end) - 1, most=5) == tuple(expected[-5:])


# Bounds and words


def test_instants_are_after_and_in_order_without_end() -> None:
    cron = Cron("0 0 29 2 *", "UTC")
    assert list(islice(cron.after(ms("2096-02-29T00:00Z")), 1)) == [ms("2104-02-29T00:00Z")]
    assert next(Cron("* * * * *", "UTC").after(60_000)) == 120_000
    assert next(Cron("* * * * *", "UTC").after(59_999)) == 60_000


@pytest.mark.parametrize(
    ("after", "until", "most", "expected"),
    [
        (0, 59_999, 3, ()),
        (0, 60_000, 3, (60_000,)),
        (60_000, 60_000, 3, ()),
        (60_000, 30_000, 3, ()),
        (0, 600_000, 2, (540_000, 600_000)),
        (0, 10**12, 1, (10**12 - 40_000,)),
    ],
)
def test_the_last_instants_of_a_stretch(after: int, until: int, most: int, expected: tuple[int, ...]) -> None:
    assert Cron("* * * * *", "UTC").last(after, until, most=most) == expected


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "five fields"),
        ("* * * *", "five fields"),
        ("* * * * * *", "five fields"),
        ("@daily", "five fields"),
        ("60 * * * *", "bad minute"),
        ("* 24 * * *", "bad hour"),
        ("* * 0 * *", "bad day-of-month"),
        ("* * * 13 *", "bad month"),
        ("* * * * 8", "bad day-of-week"),
        ("*/0 * * * *", "bad minute"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("0 0 LW * */6", "never comes"),
        ("0," * MAX_LINE + "0 0 * * *", "five fields"),
    ],
)
def test_what_is_no_cron_line_is_refused(line: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Cron(line, "UTC")


@pytest.mark.parametrize("zone", ["", "Europe", "Europe/Madrit", "../UTC", "/etc/localtime", "x" * 300, "a\0b", "ü"])
def test_what_is_no_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match="is not a time zone"):
        Cron("* * * * *", zone)


@given(st.lists(st.text("0123456789*,-/#LWSUNMOJA ", max_size=6), min_size=5, max_size=5).map(" ".join))
def test_any_text_is_a_line_or_refused(line: str) -> None:
    try:
        cron = Cron(line, "UTC")
    except ValueError:
        return
    assert next(cron.after(0)) > 0
