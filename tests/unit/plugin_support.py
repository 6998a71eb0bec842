"""Distributions with plugins in them, as an installer leaves them on the path: found by the real importlib.metadata."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TypeAlias

import msgspec
import pytest

from bext_workflow.plugin.hookspecs import HostInfo

_numbers = count()

PLUGIN = """\
from bext_workflow import StepDefinition, StepOutcome, WorkflowDefinition, hookimpl

class Plugin:
    @hookimpl
    def name(self):
        return "shop"

    @hookimpl
    def definitions(self):
        return [WorkflowDefinition(id="order", steps=(StepDefinition(name="pack"), StepDefinition(name="ship")))]

    @hookimpl
    def run_step(self, run, step_name):
        return StepOutcome.Continue()
"""
"""A plugin named shop, with workflow order@1 of steps pack and ship."""


class Installed(msgspec.Struct, frozen=True):
    """A distribution on the path; `module` is new for each, so that none is found imported."""

    distribution: str
    module: str
    folder: Path


Install: TypeAlias = Callable[..., Installed]


def installer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """A function that installs `code` as a distribution with one entry point."""

    def install(
        code: str = PLUGIN, *, name: str = "shop", distribution: str = "acme-shop", attribute: str = "Plugin"
    ) -> Installed:
        number = next(_numbers)
        module, folder = f"plugin_of_test_{number}", tmp_path / f"site-{number}"
        info = folder / f"{distribution.replace('-', '_')}-1.2.3.dist-info"
        info.mkdir(parents=True)
        (folder / f"{module}.py").write_text(textwrap.dedent(code))
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2.3\n")
        target = f"{module}:{attribute}" if attribute else module
        (info / "entry_points.txt").write_text(f"[bext_workflow]\n{name} = {target}\n")
        monkeypatch.syspath_prepend(folder)
        return Installed(distribution, module, folder)

    return install


def host_info(folder: Path) -> HostInfo:
    return HostInfo(data_dir=folder, store="sqlite::memory:")
