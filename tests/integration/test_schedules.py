"""Schedules through the real app: config, store, host of its own process, both ways to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checkout import CONFIG
from tests.integration.test_cli import ORDER, Shop

CONTEXT = "\n".join(f'{key} = "{value}"' for key, value in ORDER.items() if isinstance(value, str))
NIGHTLY = f"""
[[plugins.schedules]]
id = "nightly"
workflow = "checkout"
cron = "30 2 * * *"
timezone = "Europe/Madrid"

[plugins.schedules.context]
quantity = 2
{CONTEXT}
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shop:
    (tmp_path / "bext.config.toml").write_text(CONFIG + NIGHTLY)
    monkeypatch.chdir(tmp_path)
    for name in ("CONFIG", "URL", "OUTPUT"):
        monkeypatch.delenv(f"BEXT_{name}", raising=False)
    return Shop(tmp_path, capfd)


def test_straight_on_the_store(shop: Shop) -> None:
    """A pause outlives the command; a trigger drives its own run where no host is there."""
    (listed,) = shop("schedules", "list").json["items"]
    assert (listed["id"], listed["plugin"], listed["paused"]) == ("nightly", "workflow-pg", False)
    assert shop("schedules", "pause", "nightly", "--reason", "quiet").json["paused"] is True
    assert shop("schedules", "pause", "nightly").code == 5

    done = shop("schedules", "trigger", "nightly", "--wait=20s")
    assert (done.code, done.json["status"], done.json["tags"]) == (0, "COMPLETED", {"schedule": "nightly"})

    (listed,) = shop("schedules", "list").json["items"]
    assert (listed["paused"], listed["next_at"], listed["last_run_id"]) == (True, None, done.json["run_id"])
    fires = [fire["local"][11:19] for fire in shop("schedules", "next", "nightly", "--limit", "3").json["items"]]
    assert set(fires) <= {"02:30:00", "03:00:00"}
    assert shop("schedules", "resume", "nightly").json["next_at"] is not None
    assert shop("schedules", "next", "daily").code == 4


def test_over_http(shop: Shop) -> None:
    with shop.served() as url:
        (listed,) = shop("--url", url, "schedules", "list").json["items"]
        assert listed == shop("schedules", "list").json["items"][0]
        assert shop("--url", url, "schedules", "pause", "nightly").json["paused"] is True
        assert shop("--url", url, "schedules", "pause", "nightly").code == 5
        done = shop("--url", url, "schedules", "trigger", "nightly", "--key", "k", "--wait=20s")
        assert (done.code, done.json["status"], done.json["key"]) == (0, "COMPLETED", "k")
        again = shop("--url", url, "schedules", "trigger", "nightly", "--key", "k")
        assert again.json["run_id"] == done.json["run_id"]


def test_mistake_in_a_schedule_keeps_check_and_serve_from_starting(shop: Shop) -> None:
    file = shop.folder / "bext.config.toml"
    file.write_text(file.read_text().replace('workflow = "checkout"', 'workflow = "chekout"'))
    for words in (["check"], ["serve"]):
        done = shop(*words)
        assert done.code == 3
        assert "the schedule 'nightly' starts 'chekout', which no plugin of the config serves" in done.out + done.err
