"""A plugin in a package outside the repo, in the manner of the README's 30 lines: found, checked and run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.hosts import Command, Place, install

PLUGIN = """\
from bext_workflow import RetryPolicy, StepDefinition, StepOutcome, WorkflowDefinition, WorkflowError, hookimpl

ONBOARDING = WorkflowDefinition(
    id="onboarding",
    steps=(
        StepDefinition(name="create_user", compensate_on_failure=True),
        StepDefinition(name="provision_mailbox", retries=RetryPolicy(max_attempts=3, backoff_ms=1)),
    ),
)

print("onboarding is imported")

@hookimpl
def name():
    return "onboarding"

@hookimpl
def definitions():
    return [ONBOARDING]

@hookimpl
async def run_step(run, step_name):
    match step_name:
        case "create_user":
            return StepOutcome.Continue({"user_id": f"u-{run.context['email']}"})
        case "provision_mailbox" if run.attempt == 1:
            return StepOutcome.Retry(reason="the mail server is busy")
        case "provision_mailbox" if run.context["email"].endswith("@example.org"):
            return StepOutcome.Fail("no mailbox for this domain", compensate=True)
        case "provision_mailbox":
            return StepOutcome.Continue({"mailbox": run.context["email"]})
    raise WorkflowError.step_not_found(step_name)

@hookimpl
def compensate_step(run, step_name):
    print(f"{step_name} of {run.context['user_id']} undone")
"""

CONFIG = """\
[[plugins]]
name = "onboarding"
source = "acme-onboarding"
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path, CONFIG)
    package = place.site / "acme_onboarding"
    package.mkdir()
    (package / "__init__.py").write_text(PLUGIN, encoding="utf-8")
    install(place.site, "acme-onboarding", onboarding="acme_onboarding")
    return place


def onboard(place: Place, email: str) -> Command:
    return place("runs", "start", "onboarding", "--set", f"email={email}", "--wait")


@pytest.mark.tier("ci")
def test_a_package_outside_the_repo_is_found_checked_and_run(place: Place) -> None:
    """A package outside the repo, installed where its host finds it."""
    (found,) = place("plugins", "list").json["items"]
    checked = place("check", "--strict")
    done = onboard(place, "ada@example.com")
    undone = onboard(place, "ada@example.org")

    assert (found["name"], found["distribution"]) == ("onboarding", "acme-onboarding")
    assert (checked.code, checked.json["workflows"]) == (0, ["onboarding@1"])
    assert (done.code, done.json["status"]) == (0, "COMPLETED")
    assert done.json["context"] == {
        "email": "ada@example.com",
        "user_id": "u-ada@example.com",
        "mailbox": "ada@example.com",
    }
    assert [step["attempts"] for step in done.json["steps"]] == [1, 2]
    assert (undone.code, undone.json["status"]) == (10, "COMPENSATED")
    assert undone.json["failure"] == "no mailbox for this domain"
    assert "create_user of u-ada@example.org undone" in undone.err  # What a plugin prints is no data of the command.
