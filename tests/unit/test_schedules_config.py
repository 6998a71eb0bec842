"""Where schedules come from: the config, a plugin's hook, and the one over the other."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from bext_workflow.checks import examine
from bext_workflow.config import ConfigProblems, effective, load_config
from bext_workflow.errors import BextError, ConfigError, DefinitionError, PluginError
from bext_workflow.model.json import Json
from bext_workflow.model.schedule import CatchUp, Overlap, ScheduleDefinition
from bext_workflow.plugin.registry import Registry, load_plugins
from tests.unit.plugin_support import PLUGIN, Install, host_info, installer

SHOP = '[[plugins]]\nname = "shop"\n'
NIGHTLY = f'{SHOP}[[plugins.schedules]]\nid = "nightly"\nworkflow = "order"\ncron = "30 2 * * *"\n'
PATH = "plugins[0].schedules[0]"

HOOK = """
@hookimpl
def schedules(self):
    from bext_workflow import Overlap, ScheduleDefinition
    return [ScheduleDefinition(
        id="nightly", workflow="order", version=1, cron="0 1 * * *", timezone="Asia/Kolkata",
        overlap="allow", catch_up="all", context={"a": 1}, tags={"b": "c"},
    )]
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    return installer(tmp_path, monkeypatch)


def with_hook(body: str = HOOK) -> str:
    return f"{PLUGIN}\n{textwrap.indent(body, '    ')}\n"


def write(folder: Path, text: str) -> Path:
    file = folder / "bext.config.toml"
    file.write_text(text, encoding="utf-8")
    return file


def load(folder: Path, text: str, *, degraded: bool = False) -> Registry:
    return load_plugins(load_config(write(folder, text)).plugins, host_info(folder), degraded=degraded)


def only(registry: Registry) -> ScheduleDefinition:
    ((_, scheduled),) = registry.schedules.items()
    return scheduled.definition


def problems(folder: Path, text: str) -> list[tuple[str, str, str]]:
    with pytest.raises(ConfigProblems) as refused:
        load_config(write(folder, text))
    return [(one.path, one.reason, one.mend) for one in refused.value.problems]


# A schedule of the config alone


def test_absent_keys_have_the_defaults(install: Install, tmp_path: Path) -> None:
    install()
    assert only(load(tmp_path, NIGHTLY)) == ScheduleDefinition(id="nightly", workflow="order", cron="30 2 * * *")
    assert only(load(tmp_path, NIGHTLY)).overlap is Overlap.SKIP
    assert only(load(tmp_path, NIGHTLY)).catch_up is CatchUp.LATEST


def test_every_key_is_taken(install: Install, tmp_path: Path) -> None:
    install()
    text = (
        f'{NIGHTLY}version = 1\ntimezone = "Europe/Madrid"\noverlap = "buffer_one"\ncatch_up = "skip"\n'
        f'enabled = false\ncontext = {{ a = {{ b = [1, 2.5] }} }}\ntags = {{ team = "ops" }}\n'
    )
    assert only(load(tmp_path, text)) == ScheduleDefinition(
        id="nightly",
        workflow="order",
        version=1,
        cron="30 2 * * *",
        timezone="Europe/Madrid",
        overlap=Overlap.BUFFER_ONE,
        catch_up=CatchUp.SKIP,
        enabled=False,
        context={"a": {"b": [1, 2.5]}},
        tags={"team": "ops"},
    )


@pytest.mark.parametrize(
    ("line", "path", "reason", "mend"),
    [
        ('cron = "30 2 * *"', ".cron", "'30 2 * *' is not a cron line of five fields", '"30 2 * * *"'),
        ('cron = "99 2 * * *"', ".cron", "'99 2 * * *' is not a cron line: bad minute", "minute hour day-of-month"),
        ('cron = "0 0 LW * */6"', ".cron", "'0 0 LW * */6' never comes", "minute hour day-of-month"),
        ("cron = 5", ".cron", "is an integer, not a string", "minute hour"),
        (
            'timezone = "Europe/Madrit"',
            ".timezone",
            "'Europe/Madrit' is not a time zone",
            "did you mean 'Europe/Madrid'?",
        ),
        ('timezone = "Nowhere"', ".timezone", "'Nowhere' is not a time zone", '"UTC"'),
        ('overlap = "queue"', ".overlap", "must be 'skip', 'allow' or 'buffer_one'", "skip, allow or buffer_one"),
        ('catch_up = "none"', ".catch_up", "must be 'latest', 'all' or 'skip'", "latest, all or skip"),
        ("version = 0", ".version", "is 0, must be at least 1", "the highest"),
        ("enabled = 1", ".enabled", "is an integer, not true or false", "false"),
        ("tags = { a = 1 }", ".tags.a", "is an integer, not a string", "tags"),
        ('workflow = "an order"', ".workflow", "'an order' is not a name", "1 to 100"),
        ("context = { a = 9223372036854775808 }", ".context.a", "the integer 9223372036854775808 is outside", "plain"),
        ("context = { a = 2027-01-01 }", ".context.a", "JSON", "plain"),
        ('timezon = "UTC"', ".timezon", "unknown key", "did you mean 'timezone'?"),
    ],
)
def test_mistakes_are_named_with_their_place(tmp_path: Path, line: str, path: str, reason: str, mend: str) -> None:
    key = line.partition(" ")[0]
    kept = "".join(f"{known}\n" for known in NIGHTLY.splitlines() if not known.startswith(f"{key} "))
    ((found, why, what),) = problems(tmp_path, f"{kept}{line}\n")
    assert found == f"{PATH}{path}"
    assert reason in why
    assert mend in what


def test_context_over_the_limit_is_refused_before_it_is_needed(tmp_path: Path) -> None:
    text = f'[host.limits]\ncontext_bytes = 10\n{NIGHTLY}context = {{ text = "0123456789" }}\n'
    ((path, reason, _),) = problems(tmp_path, text)
    assert path == f"{PATH}.context"
    assert "over the limit of 10" in reason


@pytest.mark.parametrize("key", ["workflow", "cron"])
def test_what_a_schedule_of_its_own_needs(install: Install, tmp_path: Path, key: str) -> None:
    install()
    text = "".join(f"{line}\n" for line in NIGHTLY.splitlines() if not line.startswith(f"{key} "))
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, text)
    assert (refused.value.path, refused.value.reason) == (f"{PATH}.{key}", "is missing")


@pytest.mark.parametrize("tag", ["schedule", "scheduled_at"])
def test_tags_of_the_hosts_own_are_refused(install: Install, tmp_path: Path, tag: str) -> None:
    install()
    with pytest.raises(ConfigError, match=f"the tag '{tag}' is the host's own"):
        load(tmp_path, f'{NIGHTLY}tags = {{ {tag} = "x" }}\n')


def test_ids_are_unique_over_the_config(tmp_path: Path) -> None:
    other = NIGHTLY.replace('name = "shop"', 'name = "depot"')
    assert problems(tmp_path, NIGHTLY + other) == [
        (
            "plugins[1].schedules[0]",
            f"schedule 'nightly' stands already at {PATH}",
            "rename or drop one of the two",
        )
    ]


def test_config_show_shows_what_is_stated(tmp_path: Path) -> None:
    shown: Json = effective(load_config(write(tmp_path, f'{NIGHTLY}overlap = "allow"\n')))
    assert shown["plugins"][0]["schedules"] == [
        {"id": "nightly", "workflow": "order", "cron": "30 2 * * *", "overlap": "allow"}
    ]


# A plugin's own


def test_plugin_brings_schedules(install: Install, tmp_path: Path) -> None:
    install(with_hook())
    registry = load(tmp_path, SHOP)
    own = only(registry)
    assert (own.overlap, own.catch_up, own.timezone) == (Overlap.ALLOW, CatchUp.ALL, "Asia/Kolkata")
    assert registry.schedules["nightly"].plugin == "shop"
    assert "schedules" in registry.plugins[0].hooks


def test_config_lays_only_the_keys_that_it_states_over_it(install: Install, tmp_path: Path) -> None:
    install(with_hook())
    own = only(load(tmp_path, SHOP))
    over = only(load(tmp_path, f'{SHOP}[[plugins.schedules]]\nid = "nightly"\ncron = "0 5 * * *"\nenabled = false\n'))
    assert over == ScheduleDefinition(
        id="nightly",
        workflow="order",
        version=1,
        cron="0 5 * * *",
        timezone="Asia/Kolkata",
        overlap=Overlap.ALLOW,
        catch_up=CatchUp.ALL,
        context={"a": 1},
        tags={"b": "c"},
        enabled=False,
    )
    assert own.cron == "0 1 * * *"
    assert next(over.times.after(0)) != next(own.times.after(0))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("5", "schedules() gave a int"),
        ('[{"id": "nightly"}]', "schedules() gave a list of something else"),
        ("1 / 0", "schedules() failed: ZeroDivisionError"),
        (
            'ScheduleDefinition(id="a", workflow="order", cron="x")',
            "schedule 'a': 'x' is not a cron line of five fields",
        ),
        ('[ScheduleDefinition(id="a", workflow="order", cron="* * * * *")] * 2', "gives the schedule 'a' twice"),
    ],
)
def test_p48_hook_that_gives_something_else_is_named(install: Install, tmp_path: Path, answer: str, words: str) -> None:
    install(
        with_hook(
            f"@hookimpl\ndef schedules(self):\n    from bext_workflow import ScheduleDefinition\n    return {answer}\n"
        )
    )
    with pytest.raises(PluginError) as refused:
        load(tmp_path, SHOP)
    assert words in refused.value.message
    assert refused.value.message.startswith("plugin 'shop' (acme-shop 1.2.3")


def test_two_plugins_cannot_have_a_schedule_of_one_id(install: Install, tmp_path: Path) -> None:
    install(with_hook())
    depot = with_hook().replace('"shop"', '"depot"').replace('"order"', '"stock"')
    install(depot, name="depot", distribution="acme-depot")
    with pytest.raises(PluginError, match="plugin 'depot': the schedule 'nightly' is 'shop''s already"):
        load(tmp_path, f'{SHOP}[[plugins]]\nname = "depot"\n')


# The workflow


@pytest.mark.parametrize(("line", "wanted"), [('workflow = "ordre"', "ordre"), ("version = 7", "order@7")])
def test_workflow_that_is_not_served_is_refused(install: Install, tmp_path: Path, line: str, wanted: str) -> None:
    install()
    text = NIGHTLY.replace('workflow = "order"\n', "" if "workflow" in line else 'workflow = "order"\n') + line
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, text)
    assert refused.value.path == PATH
    assert refused.value.reason == f"the schedule 'nightly' starts '{wanted}', which no plugin of the config serves"
    assert refused.value.mend == "there are: order@1"
    assert [
        (one.code, one.where) for one in examine(tmp_path / "bext.config.toml").findings if one.severity == "error"
    ] == [("config-invalid", f"{tmp_path / 'bext.config.toml'}: {PATH}")]


def test_workflow_of_a_plugins_own_schedule_that_is_not_served_is_refused(install: Install, tmp_path: Path) -> None:
    install(with_hook(HOOK.replace('"order"', '"gone"')))
    with pytest.raises(PluginError, match="plugin 'shop': the schedule 'nightly' starts 'gone@1'"):
        load(tmp_path, SHOP)


def test_workflow_may_be_another_plugins(install: Install, tmp_path: Path) -> None:
    install()
    install(PLUGIN.replace('"shop"', '"depot"').replace('"order"', '"stock"'), name="depot", distribution="acme-depot")
    registry = load(tmp_path, NIGHTLY.replace('"order"', '"stock"') + '[[plugins]]\nname = "depot"\n')
    assert registry.schedules["nightly"].plugin == "shop"


def test_degraded_leaves_out_what_starts_the_workflow_of_a_plugin_that_is_left_out(
    install: Install, tmp_path: Path
) -> None:
    install()
    text = NIGHTLY.replace('"order"', '"stock"') + '[[plugins]]\nname = "depot"\n'
    registry = load(tmp_path, text, degraded=True)
    assert [one.name for one in registry.left_out] == ["depot"]
    assert [one.name for one in registry.unscheduled] == ["schedule nightly"]
    assert registry.schedules == {}
    assert [plugin.name for plugin in registry.plugins] == ["shop"]


# The definition by itself


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"id": "a b"}, "'a b' cannot name a schedule"),
        ({"workflow": ""}, "'' cannot name a workflow"),
        ({"version": 0}, "the version is 0"),
        ({"cron": "* * * *"}, "is not a cron line of five fields"),
        ({"timezone": "Mars"}, "'Mars' is not a time zone"),
        ({"overlap": "wait"}, "overlap is 'wait'"),
        ({"catch_up": "none"}, "catch_up is 'none'"),
        ({"tags": {"schedule": "x"}}, "the tag 'schedule'"),
    ],
)
def test_definition_that_cannot_be_kept_to_is_refused(fields: dict[str, Json], words: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        ScheduleDefinition(**{"id": "a", "workflow": "order", "cron": "* * * * *", **fields})
    assert words in refused.value.message
    assert refused.value.mend


def test_errors_are_one_line(install: Install, tmp_path: Path) -> None:
    install()
    with pytest.raises(BextError) as refused:
        load(tmp_path, NIGHTLY.replace('"order"', '"x"'))
    assert "\n" not in str(refused.value)
