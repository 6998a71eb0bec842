"""The registry: which plugin the config means, what it must be like, and what of it the host calls (P48)."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from bext_workflow import StepOutcome
from bext_workflow.errors import BextError, ConfigError, PluginError
from bext_workflow.model.json import Json
from bext_workflow.plugin.overlay import StepEntry, WorkflowEntry
from bext_workflow.plugin.registry import Plugin, PluginSpec, Registry, load_plugins
from bext_workflow.plugin.source import distribution_of
from tests.unit.plugin_support import PLUGIN, Install, host_info, installer


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    return installer(tmp_path, monkeypatch)


def load(*specs: PluginSpec, degraded: bool = False, folder: Path = Path("/data")) -> Registry:
    return load_plugins(specs, host_info(folder), degraded=degraded)


def load_one(spec: PluginSpec | None = None) -> Plugin:
    (plugin,) = load(spec or PluginSpec(name="shop")).plugins
    return plugin


def refusal(spec: PluginSpec | None = None) -> BextError:
    """What loading raises: one line with a mend."""
    with pytest.raises(BextError) as refused:
        load(spec or PluginSpec(name="shop"))
    assert "\n" not in str(refused.value)
    assert refused.value.mend
    return refused.value


def hooks(body: str) -> str:
    """The plugin with further methods."""
    return f"{PLUGIN}\n{textwrap.indent(body, '    ')}\n"


class TestFinding:
    def test_by_name(self, install: Install) -> None:
        installed = install()
        plugin = load_one()
        assert (plugin.name, plugin.distribution, plugin.version) == ("shop", "acme-shop", "1.2.3")
        assert plugin.entry_point == f"{installed.module}:Plugin"
        assert plugin.hooks == {"name", "definitions", "run_step"}

    @pytest.mark.parametrize("source", ["@acme/shop", "acme-shop", "Acme_Shop", "acme.shop"])
    def test_by_source(self, install: Install, source: str) -> None:
        install()
        assert load_one(PluginSpec(name="shop", source=source)).distribution == "acme-shop"

    def test_only_the_named_one_is_imported(self, install: Install) -> None:
        """Semantics §12."""
        other = install(name="other", distribution="acme-other", code="raise SystemExit('imported')")
        mine = install()
        load_one()
        assert mine.module in sys.modules
        assert other.module not in sys.modules

    def test_not_installed(self, install: Install) -> None:
        install(name="shop-eu")
        error = refusal()
        assert "plugin 'shop' is not installed" in error.message
        assert error.mend == "did you mean 'shop-eu'?"

    def test_not_installed_with_a_source(self) -> None:
        error = refusal(PluginSpec(name="nothing-like-it", source="@acme/shop"))
        assert "install acme-shop in the host's environment" in error.mend

    def test_the_source_has_no_such_entry_point(self, install: Install) -> None:
        install(name="store")
        error = refusal(PluginSpec(name="shop", source="@acme/shop"))
        assert "acme-shop 1.2.3 has no entry point 'shop'" in error.message
        assert error.mend == "it has: store"

    def test_the_source_is_no_plugin(self) -> None:
        error = refusal(PluginSpec(name="shop", source="pytest"))
        assert "has no entry point 'shop' in group 'bext_workflow'" in error.message

    def test_from_another_distribution_than_source_says(self, install: Install) -> None:
        install()
        error = refusal(PluginSpec(name="shop", source="@bext/shop"))
        assert "comes from acme-shop, not from bext-shop as its source '@bext/shop' says" in error.message

    def test_two_distributions_with_one_name(self, install: Install) -> None:
        install()
        install(distribution="other-shop")
        assert "ambiguous: acme-shop and other-shop" in refusal().message
        assert load_one(PluginSpec(name="shop", source="other-shop")).distribution == "other-shop"

    @pytest.mark.parametrize(
        "source",
        [
            "",
            "../shop",
            "/opt/shop",
            "@acme",
            "@acme/../shop",
            "acme/shop",
            "git+https://x/y",
            "a b",
            "a\n",
            "-a",
            "a==1",
            "x" * 300,
        ],
    )
    def test_what_is_no_source(self, source: str) -> None:
        with pytest.raises(ValueError, match="names no distribution"):
            distribution_of(source)

    def test_the_scope_is_the_first_word(self) -> None:
        assert distribution_of("@bext/workflow-pg") == "bext-workflow-pg"
        assert distribution_of("Bext.Workflow__PG") == "bext-workflow-pg"


class TestImporting:
    """P48: the error names distribution, entry point and cause."""

    @pytest.mark.parametrize(
        ("code", "cause"),
        [
            ("import nothing_like_it", "ModuleNotFoundError: No module named 'nothing_like_it'"),
            ("def", "SyntaxError: invalid syntax"),
            ("1 / 0", "ZeroDivisionError: division by zero"),
            ("raise SystemExit(3)", "SystemExit: 3"),
            ("raise RuntimeError('two\\nlines')", "RuntimeError: two lines"),
            ("x = 1", "AttributeError: module"),
            ("class Plugin:\n    def __init__(self, needed): ...", "TypeError: "),
            (
                "from bext_workflow import RetryPolicy\nRetryPolicy(max_attempts=0)",
                "DefinitionError: max_attempts is 0",
            ),
        ],
    )
    def test_failures(self, install: Install, code: str, cause: str) -> None:
        installed = install(code)
        message = refusal().message
        assert message.startswith(f"plugin 'shop' (acme-shop 1.2.3, entry point {installed.module}:Plugin): ")
        assert cause in message

    def test_the_line_is_the_plugins_own(self, install: Install) -> None:
        installed = install("from bext_workflow import RetryPolicy\n\n\nRetryPolicy(max_attempts=0)")
        assert f"{installed.module}.py:4)" in refusal().message

    def test_ctrl_c_is_not_the_plugins_fault(self, install: Install) -> None:
        install("raise KeyboardInterrupt")
        with pytest.raises(KeyboardInterrupt):
            load(PluginSpec(name="shop"))

    def test_a_module_is_a_plugin(self, install: Install) -> None:
        install(
            """
            from bext_workflow import StepOutcome, hookimpl

            @hookimpl
            def name():
                return "shop"

            @hookimpl
            def definitions():
                return []

            @hookimpl
            def run_step(run, step_name):
                return StepOutcome.Continue({"step": step_name})
            """,
            attribute="",
        )
        assert load_one().run_step.call(None, "pack") == StepOutcome.Continue({"step": "pack"})

    def test_an_instance_is_a_plugin(self, install: Install) -> None:
        install(PLUGIN + "\nplugin = Plugin()\n", attribute="plugin")
        assert load_one().name == "shop"

    def test_a_function_is_not(self, install: Install) -> None:
        install("def Plugin(): ...")
        assert "the entry point is a function" in refusal().message


class TestHooks:
    @pytest.mark.parametrize("missing", ["name", "run_step", "definitions"])
    def test_required(self, install: Install, missing: str) -> None:
        install(PLUGIN.replace(f"def {missing}(", f"def compensate_step(self): ...\n    def other_{missing}("))
        error = refusal()
        assert f"it has no hook {missing}" in error.message
        assert missing in error.mend

    def test_name_differs(self, install: Install) -> None:
        install(PLUGIN.replace('return "shop"', 'return "store"'))
        error = refusal()
        assert "its name() is 'store'" in error.message
        assert "'shop'" in error.mend

    def test_unknown(self, install: Install) -> None:
        install(hooks("@hookimpl\ndef compensate_steps(self, run, step_name): ..."))
        error = refusal()
        assert "there is no hook 'compensate_steps'" in error.message
        assert error.mend == "did you mean 'compensate_step'?"

    def test_unknown_argument(self, install: Install) -> None:
        install(hooks("@hookimpl\ndef compensate_step(self, run, stepname): ..."))
        error = refusal()
        assert "'compensate_step'" in error.message
        assert "'stepname'" in error.message
        assert "compensate_step(run, step_name)" in error.mend

    def test_an_argument_with_a_default_would_never_be_passed(self, install: Install) -> None:
        install(hooks("@hookimpl\ndef compensate_step(self, run, step_name='pack'): ..."))
        assert "compensate_step gives its argument step_name a default" in refusal().message

    def test_unmarked(self, install: Install) -> None:
        """An undo that is never called would be found when it is too late."""
        install(hooks("def compensate_step(self, run, step_name): ..."))
        error = refusal()
        assert "compensate_step is not marked as a hook" in error.message
        assert "@hookimpl" in error.mend

    def test_twice(self, install: Install) -> None:
        install(hooks('@hookimpl(specname="run_step")\ndef other(self, run, step_name): ...'))
        assert "run_step is implemented 2 times" in refusal().message

    def test_wrapper(self, install: Install) -> None:
        install(hooks("@hookimpl(wrapper=True)\ndef compensate_step(self, run, step_name):\n    yield"))
        assert "compensate_step is marked as a wrapper" in refusal().message

    def test_the_protocol_may_be_a_base_class(self, install: Install) -> None:
        """Its specifications are no unmarked hooks of the plugin's."""
        code = PLUGIN.replace("class Plugin:", "class Plugin(WorkflowPlugin):")
        install(f"from bext_workflow.plugin.hookspecs import WorkflowPlugin\n{code}")
        assert load_one().compensate_step is None

    def test_names_that_a_module_imports_are_not_its_hooks(self, install: Install) -> None:
        install(
            """
            from structlog import configure
            from bext_workflow import hookimpl

            @hookimpl
            def name():
                return "shop"

            @hookimpl
            def definitions():
                return []

            @hookimpl
            def run_step(): ...
            """,
            attribute="",
        )
        assert "configure" not in load_one().hooks

    @pytest.mark.parametrize(
        ("signature", "shown"),
        [
            ("self, run, step_name", "(run, step_name)"),
            ("self, run", "(run,)"),
            ("self, step_name", "(step_name,)"),
            ("self, step_name, run", "(step_name, run)"),
            ("self", "()"),
            ("self, run, step_name, further=7", "(run, step_name, further)"),
        ],
    )
    def test_fewer_arguments_than_the_specification(self, install: Install, signature: str, shown: str) -> None:
        install(hooks(f"@hookimpl\ndef compensate_step({signature}):\n    return {shown}"))
        hook = load_one().compensate_step
        assert hook is not None
        given: dict[str, Json] = {"run": "RUN", "step_name": "STEP", "further": 7}
        names = [name.strip() for name in shown.strip("()").split(",") if name.strip()]
        assert hook.call("RUN", "STEP") == tuple(given[name] for name in names)

    def test_a_full_signature_is_called_without_anything_between(self, install: Install) -> None:
        """Architecture "Plugins": no pluggy call chain in a step."""
        installed = install()
        call = load_one().run_step.call
        assert getattr(call, "__func__", None) is sys.modules[installed.module].Plugin.run_step

    def test_async_and_plain(self, install: Install) -> None:
        install(
            hooks("@hookimpl\nasync def compensate_step(self, run): ...\n@hookimpl\nasync def verify_step(self): ...")
        )
        plugin = load_one()
        calls = (plugin.run_step, plugin.compensate_step, plugin.verify_step)
        assert [hook is not None and hook.is_async for hook in calls] == [False, True, True]

    async def test_hooks_of_loading_may_be_async_too(self, install: Install) -> None:
        """Semantics §2, inside a running loop as well."""
        install(PLUGIN.replace("def name", "async def name").replace("def definitions", "async def definitions"))
        assert [one.id for one in load_one().definitions] == ["order"]

    def test_only_the_owner_is_called(self, install: Install) -> None:
        """Direct dispatch: nothing is broadcast to another plugin with the same hooks."""
        install()
        other = PLUGIN.replace('"shop"', '"other"').replace('"order"', '"elsewhere"')
        install(other, name="other", distribution="acme-other")
        registry = load(PluginSpec(name="shop"), PluginSpec(name="other"))
        assert {key: one.plugin.name for key, one in registry.served.items()} == {
            ("order", 1): "shop",
            ("elsewhere", 1): "other",
        }


CONFIGURE = """
@hookimpl
def configure(self, config, host):
    if "bad" in config:
        raise ValueError(f"bad is {config['bad']}")
    if "broken" in config:
        raise KeyError("broken")
    self.given = (dict(config), host)
    config.clear()

@hookimpl
def compensate_step(self):
    return self.given
"""


class TestConfigure:
    def test_the_plugin_gets_a_config_of_its_own(self, install: Install, tmp_path: Path) -> None:
        install(hooks(CONFIGURE))
        config = {"pool": 5, "nested": {"a": [1]}}
        (plugin,) = load(PluginSpec(name="shop", config=config), folder=tmp_path).plugins
        assert plugin.compensate_step is not None
        assert plugin.compensate_step.call(None, "") == (config, host_info(tmp_path))
        assert config == {"pool": 5, "nested": {"a": [1]}}

    def test_without_a_config_it_gets_none(self, install: Install) -> None:
        install(hooks(CONFIGURE))
        assert load_one().hooks >= {"configure"}

    def test_a_config_that_it_refuses(self, install: Install) -> None:
        install(hooks(CONFIGURE))
        error = refusal(PluginSpec(name="shop", config={"bad": 1}))
        assert error.message.endswith("refuses its config: bad is 1")
        assert error.mend == "correct [plugins.config]"

    def test_a_configure_that_fails(self, install: Install) -> None:
        install(hooks(CONFIGURE))
        assert (
            "configure() failed: KeyError: 'broken'" in refusal(PluginSpec(name="shop", config={"broken": 1})).message
        )

    def test_a_config_that_nobody_takes(self, install: Install) -> None:
        install()
        error = refusal(PluginSpec(name="shop", config={"pool": 5}))
        assert "it takes no config, but the config file gives pool" in error.message

    def test_definitions_come_after_it(self, install: Install) -> None:
        code = PLUGIN.replace('return [WorkflowDefinition(id="order"', "return [WorkflowDefinition(id=self.workflow")
        install(f"{code}\n    @hookimpl\n    def configure(self, config):\n        self.workflow = config['id']\n")
        assert [one.id for one in load_one(PluginSpec(name="shop", config={"id": "chosen"})).definitions] == ["chosen"]


class TestDefinitions:
    @pytest.mark.parametrize(
        ("given", "shape"),
        [
            ("None", "gave a NoneType"),
            ("WorkflowDefinition(id='order', steps=(StepDefinition(name='a'),))", "gave a WorkflowDefinition"),
            ("['order']", "gave a list with str in it"),
            ("'order'", "gave a str"),
            ("{}", "gave a dict"),
        ],
    )
    def test_wrong_types(self, install: Install, given: str, shape: str) -> None:
        install(PLUGIN.replace("return [WorkflowDefinition", f"return {given}\n        [WorkflowDefinition"))
        assert shape in refusal().message

    def test_raises(self, install: Install) -> None:
        install(PLUGIN.replace("return [WorkflowDefinition", "raise RuntimeError('no')\n        [WorkflowDefinition"))
        assert "definitions() failed: RuntimeError: no" in refusal().message

    def test_an_impossible_graph(self, install: Install) -> None:
        install(PLUGIN.replace('name="pack"', 'name="pack", next="nowhere"'))
        assert "step 'pack' goes to 'nowhere'" in refusal().message

    def test_twice(self, install: Install) -> None:
        install(PLUGIN.replace("return [", "return 2 * ["))
        assert "gives workflow 'order' version 1 twice" in refusal().message

    def test_of_two_plugins(self, install: Install) -> None:
        install()
        install(PLUGIN.replace('"shop"', '"other"'), name="other", distribution="acme-other")
        with pytest.raises(PluginError, match="plugin 'other': workflow 'order' version 1 is served by 'shop' already"):
            load(PluginSpec(name="shop"), PluginSpec(name="other"))

    def test_may_be_left_to_the_config(self, install: Install) -> None:
        install(PLUGIN.replace("@hookimpl\n    def definitions", "def workflows"))
        entry = WorkflowEntry(id="own", steps=(StepEntry(name="a"),))
        assert [one.id for one in load_one(PluginSpec(name="shop", workflows=(entry,))).definitions] == ["own"]
        assert "it has no hook definitions" in refusal().message


LIFESPAN = """
@hookimpl
@asynccontextmanager
async def lifespan(self):
    yield
"""


class TestLifespanAndStore:
    def test_the_lifespan_can_be_entered(self, install: Install) -> None:
        install("from contextlib import asynccontextmanager\n" + hooks(LIFESPAN))
        plugin = load_one()
        assert plugin.lifespan is not None
        assert hasattr(plugin.lifespan(), "__aenter__")

    def test_a_bare_generator_is_refused_when_it_is_entered(self, install: Install) -> None:
        install(hooks("@hookimpl\nasync def lifespan(self):\n    yield"))
        plugin = load_one()
        assert plugin.lifespan is not None
        with pytest.raises(PluginError, match="gave a async_generator"):
            plugin.lifespan()

    def test_a_coroutine_is_refused(self, install: Install) -> None:
        install(hooks("@hookimpl\nasync def lifespan(self): ..."))
        assert "lifespan is a coroutine function" in refusal().message

    def test_a_store(self, install: Install) -> None:
        install(hooks("@hookimpl\ndef open_store(self, url):\n    return ['store', url] if url != 'x:y' else 1 / 0"))
        plugin = load_one()
        assert plugin.open_store is not None
        assert plugin.open_store("acme:1") == ["store", "acme:1"]
        with pytest.raises(PluginError, match=r"open_store\(\) failed: ZeroDivisionError"):
            plugin.open_store("x:y")

    def test_an_async_open_store_is_refused(self, install: Install) -> None:
        install(hooks("@hookimpl\nasync def open_store(self, url): ..."))
        assert "open_store is a coroutine function" in refusal().message


class TestDegraded:
    """P48: under `serve --degraded` only its own workflows are missing."""

    def test_what_fails_is_left_out_with_its_error(self, install: Install) -> None:
        install()
        install("1 / 0", name="broken", distribution="acme-broken")
        bad = WorkflowEntry(id="order", steps=(StepEntry(name="other"),), file="f", path="p")
        install(PLUGIN.replace('"shop"', '"overlaid"'), name="overlaid", distribution="acme-overlaid")
        registry = load(
            PluginSpec(name="broken"),
            PluginSpec(name="nothing"),
            PluginSpec(name="overlaid", workflows=(bad,)),
            PluginSpec(name="shop"),
            degraded=True,
        )
        assert [plugin.name for plugin in registry.plugins] == ["shop"]
        assert list(registry.served) == [("order", 1)]
        assert [(one.name, type(one.error), one.workflows) for one in registry.left_out] == [
            ("broken", PluginError, ()),
            ("nothing", PluginError, ()),
            ("overlaid", ConfigError, ("order",)),
        ]

    def test_otherwise_the_first_stops_the_start(self, install: Install) -> None:
        install("1 / 0", name="broken", distribution="acme-broken")
        with pytest.raises(PluginError, match="broken"):
            load(PluginSpec(name="broken"), PluginSpec(name="nothing"))


def test_the_reference_plugin_serves_the_checkout() -> None:
    registry = load(PluginSpec(name="workflow-pg", source="@bext/workflow-pg"))
    checkout = registry.served["checkout", 1].definition
    assert [step.name for step in checkout.steps] == ["reserve_stock", "charge_card", "send_receipt"]
