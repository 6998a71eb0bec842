"""`bext.config.toml`: every mistake is one clear message with file, key path, reason and mend."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from bext_workflow.config import ConfigProblems, effective, find_config, load_config, parse_listen
from bext_workflow.config.settings import (
    Host,
    Limits,
    Plugin,
    Retention,
    Retries,
    Schedule,
    Settings,
    Step,
    Table,
    UndoRetries,
    Wait,
    Workflow,
)
from bext_workflow.errors import ConfigError
from bext_workflow.model.definition import StepDefinition
from bext_workflow.model.json import Json, verify
from bext_workflow.model.policy import RetryPolicy

SPEC = """\
# bext.config.toml
[[plugins]]
name = "workflow-pg"
source = "@bext/workflow-pg"

[[plugins.workflows]]
id = "checkout"
version = 1
steps = [
    { name = "reserve_stock", retries = { max_attempts = 3, backoff_ms = 500, backoff_multiplier = 2.0, max_backoff_ms = 5000 }, idempotent = true },
    { name = "charge_card",   retries = { max_attempts = 1, backoff_ms = 0,   backoff_multiplier = 1.0, max_backoff_ms = 0 },    idempotent = false },
    { name = "send_receipt",  retries = { max_attempts = 5, backoff_ms = 200, backoff_multiplier = 2.0, max_backoff_ms = 10000 }, idempotent = true },
]
"""  # noqa: E501 - verbatim

SHOP = '[[plugins]]\nname = "shop"\n'
NO_PORTS = ("x", "65536", "²", "-1", "1" * 5000)
A = '{ name = "a" }'
FIRST_STEP = "plugins[0].workflows[0].steps[0]"
ORDER = f'{SHOP}[[plugins.workflows]]\nid = "order"\n'


def write(folder: Path, text: str | bytes) -> Path:
    file = folder / "bext.config.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


@pytest.fixture
def refusal(tmp_path: Path) -> Json:
    """A function from a text to the problems that are found in it, as (key path, reason, mend)."""

    def refused(text: str | bytes) -> list[tuple[str, str, str]]:
        file = write(tmp_path, text)
        with pytest.raises(ConfigError) as raised:
            load_config(file)
        error = raised.value
        problems = error.problems if isinstance(error, ConfigProblems) else (error,)
        for problem in problems:
            assert problem.file == str(file)
            assert problem.mend
            assert "\n" not in str(problem)
            assert len(str(problem)) < 700
        return [(problem.path, problem.reason, problem.mend) for problem in problems]

    return refused


def steps(text: str) -> str:
    return f"{ORDER}steps = [{text}]\n"


class TestSpec:
    def test_the_block_of_the_text_loads_verbatim(self, tmp_path: Path) -> None:
        config = load_config(write(tmp_path, SPEC))
        (plugin,) = config.plugins
        assert (plugin.name, plugin.source, plugin.config) == ("workflow-pg", "@bext/workflow-pg", None)
        (checkout,) = plugin.workflows
        assert (checkout.id, checkout.version, checkout.stated) == ("checkout", 1, {})
        assert checkout.path == "plugins[0].workflows[0]"
        reserve, charge, send = checkout.steps
        assert (reserve.name, reserve.stated) == ("reserve_stock", {"idempotent": True})
        assert reserve.retries == {
            "max_attempts": 3,
            "backoff_ms": 500,
            "backoff_multiplier": 2.0,
            "max_backoff_ms": 5000,
        }
        assert (charge.name, charge.stated) == ("charge_card", {"idempotent": False})
        assert charge.retries["max_attempts"] == 1
        assert (send.name, send.retries["max_backoff_ms"]) == ("send_receipt", 10_000)

    def test_an_empty_file_is_a_host_without_plugins(self, tmp_path: Path) -> None:
        config = load_config(write(tmp_path, ""))
        assert config.plugins == ()
        assert config.host == Host()

    def test_the_repositorys_own_config_is_the_texts(self) -> None:
        own = load_config(Path(__file__).parents[2] / "bext.config.toml")
        assert [entry.id for plugin in own.plugins for entry in plugin.workflows] == ["checkout"]


class TestDefaults:
    def test_of_the_host(self) -> None:
        assert Host().model_dump() == {
            "store": "sqlite:bext.db",
            "listen": "127.0.0.1:7420",
            "allowed_hosts": (),
            "concurrency": 512,
            "drain_timeout_ms": 30_000,
            "poll_ms": None,
            "lease_ms": 15_000,
            "start_keys_days": 400,
            "limits": {
                "context_bytes": 1_048_576,
                "threads": 64,
                "requests_per_s": 1_000,
                "leaked_threads": 16,
                "processes": 4,
            },
            "retention": {"completed_days": 30, "compensated_days": 90, "failed_days": 90, "cancelled_days": 90},
            "webhooks": {"allow": ()},
        }

    def test_of_a_step_are_the_models(self) -> None:
        """One set of defaults, whether a step is declared in Python or in the config."""
        model, config = StepDefinition(name="a"), Step(name="a")
        policies = {"retries", "compensation_retries"}
        for key in Step.model_fields.keys() - policies:
            assert getattr(config, key) == getattr(model, key), key
        for key in policies:
            policy: RetryPolicy = getattr(model, key)
            stated: UndoRetries = getattr(config, key)
            assert all(getattr(policy, name) == getattr(stated, name) for name in type(stated).model_fields)

    @pytest.mark.parametrize(
        "table", [Settings, Host, Limits, Retention, Plugin, Workflow, Schedule, Step, Wait, Retries, UndoRetries]
    )
    def test_every_key_is_described(self, table: type[Table]) -> None:
        assert all(field.description for field in table.model_fields.values())
        assert table.model_fields.keys().isdisjoint(table.later)


class TestSearch:
    def test_here_or_above(self, tmp_path: Path) -> None:
        file = write(tmp_path, "")
        deep = tmp_path / "a" / "b"
        deep.mkdir(parents=True)
        assert find_config(deep) == file
        assert find_config(tmp_path) == file

    def test_nowhere_names_init(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("BEXT_CONFIG", raising=False)
        with pytest.raises(ConfigError) as raised:
            load_config()
        assert "`bext-host init`" in raised.value.mend

    def test_the_argument_beats_the_variable_beats_the_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        here, named, given = (write(make(tmp_path / name), "") for name in ("here", "named", "given"))
        monkeypatch.chdir(here.parent)
        monkeypatch.delenv("BEXT_CONFIG", raising=False)
        assert load_config().file == here
        monkeypatch.setenv("BEXT_CONFIG", "../named/bext.config.toml")
        assert load_config().file.resolve() == named
        assert load_config(given).file == given

    def test_an_empty_variable_counts_as_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file = write(tmp_path, "")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("BEXT_CONFIG", "")
        assert load_config().file == file


def make(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


class TestReading:
    """What is wrong before there are any keys."""

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("a = ", "not TOML: "),
            ("[host]\nx", "not TOML: "),
            ("[host]\n[host]\n", "not TOML: "),
            ("[host]\npoll_ms = 1\npoll_ms = 2\n", "not TOML: "),
            ("# \x00", "not TOML: "),
            ("\ufeff[host]", "begins with a byte order mark"),
            (b"\xff\xfe[\0", "not UTF-8 text: byte 0xff at offset 0"),
            (b"# caf\xe9", "not UTF-8 text: byte 0xe9 at offset 5"),
            ("a=" + "[" * 100_000, "nested too deep"),
            ("a=" + "[" * 5000 + "]" * 5000, "nested too deep"),
            ("a=" + "{a=" * 5000, "nested too deep"),
            (".".join("a" * 100_000) + "=1", "a dotted key of more than 100 parts"),
            ("x={ " + " . ".join(['"a"'] * 101) + "=1}", "a dotted key of more than 100 parts"),
            ("[" + ".".join("a" * 120_000) + "]", "a dotted key of more than 100 parts"),
            ("a=" + "9" * 100_000, "not TOML: "),
            ("#" * 262_145, "larger than 262144 bytes"),
        ],
        ids=lambda text: repr(text[:24]),
    )
    @pytest.mark.timeout(20)
    def test_text(self, refusal: Json, text: str | bytes, reason: str) -> None:
        ((path, found, _),) = refusal(text)
        assert path == ""
        assert found.startswith(reason)

    def test_many_long_keys_are_read_in_time(self, refusal: Json) -> None:
        """The longest keys that are allowed, as many as fit: the square of their parts stays small."""
        text = "".join(".".join("a" * 99) + f".b{i}=1\n" for i in range(1200))
        assert refusal(text)[0][0] == "a"

    def test_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="is a folder"):
            load_config(tmp_path)

    def test_no_such_file(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="there is no such file"):
            load_config(tmp_path / "nothing.toml")

    def test_an_endless_file(self) -> None:
        with pytest.raises(ConfigError, match="larger than"):
            load_config(Path("/dev/zero"))

    def test_what_is_no_file_at_all(self, tmp_path: Path) -> None:
        path = tmp_path / "socket"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            with pytest.raises(ConfigError, match="cannot be read"):
                load_config(path)

    def test_a_path_that_cannot_be(self) -> None:
        with pytest.raises(ConfigError, match="cannot be read"):
            load_config(Path("a\0b"))

    @pytest.mark.parametrize(
        "text",
        [
            '[[plugins.workflows]]\nid = "order"\n[[plugins]]\nname = "shop"\n',
            '[[plugins.workflows]]\nid = "order"\n',
            '[plugins.config]\ndsn = "x"\n[[plugins]]\nname = "shop"\n',
            '[plugins]\nname = "shop"\n',
            'plugins = { name = "shop" }\n',
        ],
        ids=["before", "without", "config before", "one bracket", "inline"],
    )
    def test_wrong_nesting(self, refusal: Json, text: str) -> None:
        ((path, reason, mend),) = refusal(text)
        assert (path, reason) == ("plugins", "the tables of plugins do not begin with [[plugins]]")
        assert "begin each plugin with [[plugins]]" in mend

    def test_another_mistake_is_not_taken_for_wrong_nesting(self, refusal: Json) -> None:
        ((_, reason, _),) = refusal(ORDER + "steps = [\n[[plugins]]\n")
        assert reason.startswith("not TOML")


class TestSchemas:
    """JSON Schemas in the config: what they cannot be is said with file and key path."""

    @pytest.mark.parametrize(
        ("schema", "reason"),
        [
            ('{ type = "objekt" }', "is no JSON Schema: at $.type: 'objekt' is not valid"),
            ('{ "$ref" = "https://shop.example/s.json" }', "is no JSON Schema: it refers to 'https://shop"),
            ("{ const = 2026-11-30T00:00:00Z }", "at $.const: "),
        ],
    )
    def test_what_is_no_schema(self, refusal: Json, schema: str, reason: str) -> None:
        ((path, said, mend),) = refusal(steps(f"{{ name = 'a', wait = {{ signal = 's', schema = {schema} }} }}"))
        assert path == f"{FIRST_STEP}.wait.schema"
        assert said.startswith(reason)
        assert mend

    def test_a_key_near_by(self, refusal: Json) -> None:
        ((_, _, mend),) = refusal(steps("{ name = 'a', wait = { signal = 's', schem = {} } }"))
        assert mend == "did you mean 'schema'?"


class TestKeys:
    @pytest.mark.parametrize(
        ("text", "path", "near"),
        [
            ("[hosts]\n", "hosts", "host"),
            ("[host]\nstor = 'x'\n", "host.stor", "store"),
            ("[host.limits]\ncontextbytes = 1\n", "host.limits.contextbytes", "context_bytes"),
            (f"{SHOP}sources = 'x'\n", "plugins[0].sources", "source"),
            (steps('{ name = "a" }') + "step = 1\n", "plugins[0].workflows[0].step", "steps"),
            (
                steps('{ name = "a" }, { name = "b", retrys = {} }'),
                "plugins[0].workflows[0].steps[1].retrys",
                "retries",
            ),
            (
                steps('{ name = "a", retries = { max_attempt = 3 } }'),
                "plugins[0].workflows[0].steps[0].retries.max_attempt",
                "max_attempts",
            ),
            (steps('{ name = "a", wait = { timeout = 3 } }'), f"{FIRST_STEP}.wait.timeout", "timeout_ms"),
            (
                steps('{ name = "a", compensation_retries = { backof_ms = 3 } }'),
                "plugins[0].workflows[0].steps[0].compensation_retries.backof_ms",
                "backoff_ms",
            ),
        ],
    )
    def test_an_unknown_key_names_the_nearest_known_one(self, refusal: Json, text: str, path: str, near: str) -> None:
        assert refusal(text) == [(path, "unknown key", f"did you mean {near!r}?")]

    def test_an_unknown_key_like_no_other_lists_them(self, refusal: Json) -> None:
        assert refusal("[host]\nzzz = 1\n")[0][2].startswith("known keys: store, listen, allowed_hosts, concurrency")

    @pytest.mark.parametrize(
        ("text", "path"),
        [
            ("[host]\nworkers = 2\n", "host.workers"),
            *(
                (f"{ORDER}{key} = 1\nsteps = [{{ name = 'a' }}]\n", f"plugins[0].workflows[0].{key}")
                for key in (
                    "context_schema",
                    "sensitive",
                    "on_incident",
                    "concurrency",
                    "concurrency_key",
                    "priority",
                )
            ),
            *(
                (steps(f"{{ name = 'a', {key} = 1 }}"), f"plugins[0].workflows[0].steps[0].{key}")
                for key in (
                    "rate",
                    "on_incident",
                )
            ),
            (
                steps("{ name = 'a', compensation_retries = { max_elapsed_ms = 1 } }"),
                f"{FIRST_STEP}.compensation_retries.max_elapsed_ms",
            ),
        ],
        ids=lambda text: text.split(".")[-1] if "\n" not in text else "",
    )
    def test_what_is_not_yet_supported_says_so_and_what_to_do(self, refusal: Json, text: str, path: str) -> None:
        ((found, reason, mend),) = refusal(text)
        assert found == path
        assert "not yet supported" in reason
        assert mend

    @pytest.mark.parametrize(
        ("text", "path", "reason"),
        [
            ("[host]\nconcurrency = 'many'\n", "host.concurrency", "is a string, not an integer"),
            ("[host]\nconcurrency = 5.0\n", "host.concurrency", "is a number, not an integer"),
            ("[host]\nconcurrency = true\n", "host.concurrency", "is a boolean, not an integer"),
            ("[host]\nconcurrency = nan\n", "host.concurrency", "is a number, not an integer"),
            ("[host]\nconcurrency = 0\n", "host.concurrency", "is 0, must be at least 1"),
            ("[host]\nconcurrency = 100001\n", "host.concurrency", "is 100001, must be at most 100000"),
            ("[host]\ndrain_timeout_ms = -1\n", "host.drain_timeout_ms", "is -1, must be at least 0"),
            (
                f"[host]\ndrain_timeout_ms = {'9' * 4000}\n",
                "host.drain_timeout_ms",
                "is an integer of 13288 bits, must be at most 1000000000000",
            ),
            ("host = 1\n", "host", "is an integer, not a table"),
            ("plugins = 1\n", "plugins", "is an integer, not a list"),
            ("plugins = [1]\n", "plugins[0]", "is an integer, not a table"),
            ("[[plugins]]\n", "plugins[0].name", "is missing"),
            ("[[plugins]]\nname = 5\n", "plugins[0].name", "is an integer, not a string"),
            ("[[plugins]]\nname = 2020-01-01\n", "plugins[0].name", "is a date or time, not a string"),
            ("[[plugins]]\nname = 'a b'\n", "plugins[0].name", "'a b' is not a name"),
            (f"{SHOP}source = '../shop'\n", "plugins[0].source", "'../shop' names no distribution"),
            (f"{SHOP}isolation = 'thread'\n", "plugins[0].isolation", "must be 'inline' or 'process'"),
            (f"{SHOP}config = []\n", "plugins[0].config", "is a list, not a table"),
            (f"{SHOP}[plugins.workflows]\nid = 'x'\n", "plugins[0].workflows", "is a table, not a list"),
            (ORDER, "plugins[0].workflows[0].steps", "is missing"),
            (steps(""), "plugins[0].workflows[0].steps", "is 0 long, must be at least 1"),
            (steps("'a'"), "plugins[0].workflows[0].steps[0]", "is a string, not a table"),
            (steps("{ name = 'end' }"), "plugins[0].workflows[0].steps[0].name", "'end' cannot name a step"),
            (
                steps("{ name = 'a', next = 5 }"),
                "plugins[0].workflows[0].steps[0].next",
                "is neither a step name nor a list of them",
            ),
            (
                steps("{ name = 'a', branches = 'b' }"),
                "plugins[0].workflows[0].steps[0].branches",
                "is a string, not a list",
            ),
            (
                steps("{ name = 'a', retry_on = ['no class'] }"),
                "plugins[0].workflows[0].steps[0].retry_on[0]",
                "'no class' names no exception class",
            ),
            (
                steps(r"{ name = 'a', description = " + r'"\u0000" }'),
                "plugins[0].workflows[0].steps[0].description",
                "holds a NUL character",
            ),
            (steps("{ name = 'a', wait = 5 }"), f"{FIRST_STEP}.wait", "is an integer, not a table"),
            (steps("{ name = 'a', wait = { signal = 'a b' } }"), f"{FIRST_STEP}.wait.signal", "'a b' is not a name"),
            (steps("{ name = 'a', wait = { into = '' } }"), f"{FIRST_STEP}.wait.into", "is 0 long, must be at least 1"),
            (
                steps("{ name = 'a', wait = { timeout_ms = -1 } }"),
                f"{FIRST_STEP}.wait.timeout_ms",
                "is -1, must be at least 0",
            ),
            (steps("{ name = 'a', sleep_ms = 1.5 }"), f"{FIRST_STEP}.sleep_ms", "is a number, not an integer"),
            (
                f"{ORDER}timeout_ms = 1000000000001\nsteps = [{A}]\n",
                "plugins[0].workflows[0].timeout_ms",
                "is 1000000000001, must be at most 1000000000000",
            ),
            (
                f"{ORDER}version = 0\nsteps = [{{ name = 'a' }}]\n",
                "plugins[0].workflows[0].version",
                "is 0, must be at least 1",
            ),
            *(
                (
                    steps(f"{{ name = 'a', retries = {{ {key} = {value} }} }}"),
                    f"plugins[0].workflows[0].steps[0].retries.{key}",
                    reason,
                )
                for key, value, reason in (
                    ("max_attempts", "0", "is 0, must be at least 1"),
                    ("max_attempts", "'3'", "is a string, not an integer"),
                    ("backoff_ms", "-1", "is -1, must be at least 0"),
                    ("max_backoff_ms", "-5", "is -5, must be at least 0"),
                    ("backoff_multiplier", "0.5", "is 0.5, must be at least 1.0"),
                    ("backoff_multiplier", "nan", "is nan, not a finite number"),
                    ("backoff_multiplier", "inf", "is inf, not a finite number"),
                    ("max_elapsed_ms", "-1", "is -1, must be at least 0"),
                    ("jitter", "1.5", "is 1.5, must be at most 1.0"),
                    ("jitter", "-0.1", "is -0.1, must be at least 0.0"),
                    ("on_exhausted", "'retry'", "must be 'compensate', 'fail' or 'incident'"),
                )
            ),
        ],
    )
    def test_values(self, refusal: Json, text: str, path: str, reason: str) -> None:
        ((found, given, _),) = refusal(text)
        assert (found, given) == (path, reason)

    def test_a_whole_number_is_a_number(self, tmp_path: Path) -> None:
        text = steps("{ name = 'a', retries = { backoff_multiplier = 2, jitter = 1 } }")
        (plugin,) = load_config(write(tmp_path, text)).plugins
        assert plugin.workflows[0].steps[0].retries == {"backoff_multiplier": 2.0, "jitter": 1.0}

    def test_all_problems_are_there_in_the_order_of_the_keys(self, refusal: Json, tmp_path: Path) -> None:
        text = f"[host]\npoll_ms = 0\nconcurrency = 0\n{SHOP}isolation = 1\n[[plugins]]\n"
        assert [path for path, _, _ in refusal(text)] == [
            "host.concurrency",
            "host.poll_ms",
            "plugins[0].isolation",
            "plugins[1].name",
        ]
        with pytest.raises(ConfigError, match=r"host.concurrency: is 0, must be at least 1 \(and 3 more\)"):
            load_config(tmp_path / "bext.config.toml")


class TestDuplicates:
    def test_a_plugin(self, refusal: Json) -> None:
        ((path, reason, _),) = refusal(SHOP + SHOP)
        assert (path, reason) == ("plugins[1]", "plugin 'shop' stands already at plugins[0]")

    def test_a_workflow_version_across_plugins(self, refusal: Json) -> None:
        other = steps("{ name = 'a' }").replace("shop", "other")
        ((path, reason, _),) = refusal(steps("{ name = 'a' }") + other)
        assert path == "plugins[1].workflows[0]"
        assert reason == "workflow 'order' version 1 stands already at plugins[0].workflows[0]"

    def test_a_step(self, refusal: Json) -> None:
        ((path, reason, _),) = refusal(steps("{ name = 'a' }, { name = 'b' }, { name = 'a' }"))
        assert path == "plugins[0].workflows[0].steps[2]"
        assert reason == "step 'a' stands already at plugins[0].workflows[0].steps[0]"

    def test_another_version_is_another_workflow(self, tmp_path: Path) -> None:
        text = steps("{ name = 'a' }") + '[[plugins.workflows]]\nid = "order"\nversion = 2\nsteps = [{ name = "a" }]\n'
        assert len(load_config(write(tmp_path, text)).plugins[0].workflows) == 2


class TestHost:
    @pytest.mark.parametrize(
        ("text", "host", "port"),
        [
            ("127.0.0.1:7420", "127.0.0.1", 7420),
            ("localhost:0", "localhost", 0),
            ("[::1]:80", "::1", 80),
            ("127.9.9.9:65535", "127.9.9.9", 65_535),
        ],
    )
    def test_addresses(self, text: str, host: str, port: int) -> None:
        assert parse_listen(text) == (host, port)

    @pytest.mark.parametrize(
        "text", ["", "7420", ":7420", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:²"]
    )
    def test_what_is_no_address(self, refusal: Json, text: str) -> None:
        ((path, reason, _),) = refusal(f"[host]\nlisten = '{text}'\n")
        assert (path, reason) == ("host.listen", f"{text[:120]!r} is not an address")

    @pytest.mark.parametrize(
        "text", ["0.0.0.0:7420", "[::]:7420", "192.168.0.1:7420", "example.org:80", "localhost.evil.org:1"]
    )
    def test_addresses_that_other_machines_reach(self, text: str) -> None:
        """`serve` refuses them while there are no access tokens."""
        assert not parse_listen(text).loopback
        assert parse_listen("127.9.9.9:1").loopback

    def test_an_option_gives_the_same_errors(self) -> None:
        """`serve --listen` has no file and no key path."""
        with pytest.raises(ConfigError, match="is not an address"):
            parse_listen("7420")

    @pytest.mark.parametrize("name", ["bext.example.org", "BEXT", "192.168.0.1", "fd00::1", "[fd00::1]"])
    def test_names_of_the_host(self, tmp_path: Path, name: str) -> None:
        config = load_config(write(tmp_path, f"[host]\nallowed_hosts = ['{name}']\n"))
        assert config.host.allowed_hosts == (name,)

    def test_networks_that_webhooks_may_reach(self, tmp_path: Path, refusal: Json) -> None:
        config = load_config(write(tmp_path, "[host.webhooks]\nallow = ['10.0.0.0/8', '::1']\n"))
        assert config.host.webhooks.allow == ("10.0.0.0/8", "::1")
        ((path, reason, mend),) = refusal("[host.webhooks]\nallow = ['10.0.0.1/8']\n")
        assert (path, "is no network" in reason, "10.0.0.0/8" in mend) == ("host.webhooks.allow[0]", True, True)

    @pytest.mark.parametrize("name", ["", "*", "https://bext.example.org", "bext:80", "a b", "-a", "a/"])
    def test_what_names_no_host(self, refusal: Json, name: str) -> None:
        ((path, reason, mend),) = refusal(f"[host]\nallowed_hosts = ['{name}']\n")
        assert (path, reason) == ("host.allowed_hosts[0]", f"{name!r} is not the name of a host")
        assert "without a port" in mend

    def test_the_stores_path_is_relative_to_the_file(self, tmp_path: Path) -> None:
        config = load_config(write(tmp_path, "[host]\nstore = 'sqlite:data/x.db'\n"))
        assert config.store == f"sqlite:{tmp_path}/data/x.db"
        assert config.data_dir == tmp_path / "data"

    @pytest.mark.parametrize("url", ["sqlite::memory:", "postgresql://localhost/bext"])
    def test_other_stores_keep_their_url(self, tmp_path: Path, url: str) -> None:
        config = load_config(write(tmp_path, f"[host]\nstore = '{url}'\n"))
        assert (config.store, config.data_dir) == (url, tmp_path)

    @pytest.mark.parametrize("url", ["", "bext.db", "/var/bext.db", "sqlite:", "sqlite:///bext.db", "C:x"])
    def test_what_is_no_store(self, refusal: Json, url: str) -> None:
        ((path, _, mend),) = refusal(f"[host]\nstore = '{url}'\n")
        assert path == "host.store"
        assert "sqlite:" in mend

    def test_a_password_is_not_repeated_when_the_url_is_wrong(self, refusal: Json) -> None:
        ((path, reason, _),) = refusal("[host]\nstore = 'Postgres://app:hush@db/bext'\n")
        assert (path, reason) == ("host.store", "'Postgres://app@db/bext' is not the URL of a store")

    @pytest.mark.parametrize("store", ["5", "[]", "{}", '{ env = "A", region = "eu" }', "true"])
    def test_what_is_neither_a_url_nor_a_secret(self, refusal: Json, store: str) -> None:
        ((path, reason, mend),) = refusal(f"[host]\nstore = {store}\n")
        assert (path, reason) == ("host.store", "is neither a URL nor a secret")
        assert "{ env = " in mend


class TestSecrets:
    text = f"""{SHOP}
    [plugins.config]
    dsn = {{ env = "SHOP_DSN" }}
    pools = [ {{ size = 5, key = {{ file = "keys/one" }} }} ]
    mode = {{ env = "prod", region = "eu" }}
    """

    def load(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Json:
        monkeypatch.setenv("SHOP_DSN", "postgresql://u:hush@db/x")
        make(tmp_path / "keys").joinpath("one").write_text("hush-hush\n")
        return load_config(write(tmp_path, self.text))

    def test_they_are_resolved_at_any_depth(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Relative to the file's folder; a table with other keys is no secret."""
        assert self.load(tmp_path, monkeypatch).plugins[0].config == {
            "dsn": "postgresql://u:hush@db/x",
            "pools": [{"size": 5, "key": "hush-hush"}],
            "mode": {"env": "prod", "region": "eu"},
        }

    def test_config_show_does_not_tell_them(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        shown = effective(self.load(tmp_path, monkeypatch))
        assert shown["plugins"][0]["config"] == {
            "dsn": "***",
            "pools": [{"size": 5, "key": "***"}],
            "mode": {"env": "prod", "region": "eu"},
        }
        assert "hush" not in str(shown)

    @pytest.mark.parametrize(
        ("secret", "reason"),
        [
            ('{ env = "SHOP_NOT_SET" }', "the environment variable SHOP_NOT_SET is not set"),
            ('{ file = "nothing" }', "nothing cannot be read: No such file or directory"),
            ('{ file = "." }', "cannot be read: Is a directory"),
            ('{ file = "/dev/zero" }', "/dev/zero is larger than 65536 bytes"),
            ("{ env = 5 }", "is not one string under env or file"),
            ('{ env = "A", file = "b" }', "is not one string under env or file"),
        ],
    )
    def test_what_cannot_be_resolved(self, refusal: Json, secret: str, reason: str) -> None:
        ((path, found, mend),) = refusal(f"{SHOP}[plugins.config]\nlist = [1, {secret}]\n")
        assert path == "plugins[0].config.list[1]"
        assert reason in found
        assert "{ env = " in mend

    def test_a_file_that_is_no_text(self, refusal: Json, tmp_path: Path) -> None:
        (tmp_path / "key").write_bytes(b"\xff")
        ((_, reason, _),) = refusal(f'{SHOP}config = {{ key = {{ file = "key" }} }}\n')
        assert reason.endswith("key is not UTF-8 text")

    def test_every_plugins_problem_is_told(self, refusal: Json) -> None:
        one = f'{SHOP}config = {{ a = {{ env = "SHOP_NOT_SET" }} }}\n'
        assert [path for path, _, _ in refusal(one + one.replace("shop", "other"))] == [
            "plugins[0].config.a",
            "plugins[1].config.a",
        ]

    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            ("inf", "inf is not a JSON number"),
            ("nan", "nan is not a JSON number"),
            ("2026-01-01", "date is not a JSON type"),
            ("9223372036854775808", "the integer 9223372036854775808 is outside"),
            (r'"\u0000"', "the text holds a NUL character"),
        ],
    )
    def test_a_plugins_config_is_json(self, refusal: Json, value: str, reason: str) -> None:
        ((path, found, _),) = refusal(f"{SHOP}[plugins.config]\na = [{{ b = {value} }}]\n")
        assert path == "plugins[0].config.a[0].b"
        assert found.startswith(reason)

    @pytest.mark.parametrize("store", ['{ env = "SHOP_STORE" }', '{ file = "keys/store" }'])
    def test_the_store_may_be_one(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str) -> None:
        url = "postgresql://app:hush@db:5432/bext?password=hush"
        monkeypatch.setenv("SHOP_STORE", url)
        make(tmp_path / "keys").joinpath("store").write_text(f"{url}\n")
        config = load_config(write(tmp_path, f"[host]\nstore = {store}\n"))

        assert (config.store, config.data_dir) == (url, tmp_path)
        assert config.shown_store == "postgresql://app@db:5432/bext"
        assert effective(config)["host"]["store"] == config.shown_store
        assert "hush" not in f"{effective(config)} {config.settings}"

    def test_a_path_in_the_stores_secret_is_relative_to_the_config(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SHOP_STORE", "sqlite:data/x.db")
        config = load_config(write(tmp_path, '[host]\nstore = { env = "SHOP_STORE" }\n'))
        assert (config.store, config.data_dir) == (f"sqlite:{tmp_path}/data/x.db", tmp_path / "data")

    @pytest.mark.parametrize("secret", ["hush", "sqlite:///hush", "Postgres://app:hush@db/bext", ""])
    def test_a_stores_secret_that_holds_no_url(
        self, refusal: Json, monkeypatch: pytest.MonkeyPatch, secret: str
    ) -> None:
        monkeypatch.setenv("SHOP_STORE", secret)
        ((path, reason, mend),) = refusal('[host]\nstore = { env = "SHOP_STORE" }\n')
        assert path == "host.store"
        assert reason.startswith("what the secret holds ")
        assert "hush" not in reason + mend

    def test_a_stores_secret_that_is_not_there_is_told_beside_those_of_plugins(self, refusal: Json) -> None:
        text = '[host]\nstore = { env = "SHOP_NOT_SET" }\n' + f'{SHOP}config = {{ a = {{ file = "nothing" }} }}\n'
        (path, reason, mend), (other, _, _) = refusal(text)
        assert (path, other) == ("host.store", "plugins[0].config.a")
        assert reason == "the environment variable SHOP_NOT_SET is not set"
        assert "{ env = " in mend


class TestShow:
    def test_defaults_are_filled_in_for_the_host_and_overlays_are_as_stated(self, tmp_path: Path) -> None:
        text = "[host]\npoll_ms = 50\n" + steps('{ name = "a", pivot = true }')
        shown = effective(load_config(write(tmp_path, text)))
        assert shown["host"]["poll_ms"] == 50
        assert shown["host"]["concurrency"] == 512
        assert shown["host"]["store"] == f"sqlite:{tmp_path}/bext.db"
        assert shown["plugins"][0] == {
            "name": "shop",
            "source": None,
            "isolation": "inline",
            "config": {},
            "workflows": [{"id": "order", "steps": [{"name": "a", "pivot": True}]}],
            "schedules": [],
        }

    def test_it_is_json(self, tmp_path: Path) -> None:
        verify(effective(load_config(write(tmp_path, SPEC))))
