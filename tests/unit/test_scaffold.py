"""`init`: what it writes runs as it is, and it never overwrites."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from bext_workflow.checks import examine
from bext_workflow.errors import Conflict, UsageError
from bext_workflow.faces.cli.scaffold import scaffold
from tests.unit.plugin_support import installer


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "My Shop"
    scaffold(folder)
    return folder


def test_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "shop"
    assert [str(file.relative_to(folder)) for file in scaffold(folder)] == [
        "bext.config.toml",
        "pyproject.toml",
        "src/shop/__init__.py",
        "tests/test_shop.py",
        ".gitignore",
    ]


def test_its_test_passes_where_it_stands(shop: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio"],
        cwd=shop,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "3 passed" in run.stdout


def test_check_has_nothing_to_say_of_it(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((shop / "pyproject.toml").read_text())["project"]
    ((name, target),) = project["entry-points"]["bext_workflow"].items()
    assert (name, target, project["name"]) == ("my-shop", "my_shop:Plugin", "my-shop")
    plugin = (shop / "src" / "my_shop" / "__init__.py").read_text()
    installer(tmp_path, monkeypatch)(plugin, name=name, distribution=project["name"])
    examined = examine(shop / "bext.config.toml")
    assert examined.findings == ()
    assert examined.registry is not None
    order = examined.registry.served["order", 1].definition
    assert [step.retries.jitter for step in order.steps] == [0.2, 0.2]


def test_the_plugin_is_short_and_well_formed(shop: Path) -> None:
    plugin = shop / "src" / "my_shop" / "__init__.py"
    assert len(plugin.read_text().splitlines()) <= 30
    checks = (["check"], ["format", "--check"])
    for command in checks:
        run = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--isolated", "--no-cache", "--line-length", "120"],
            cwd=shop,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stdout


@pytest.mark.parametrize("file", ["bext.config.toml", "pyproject.toml", "tests/test_shop.py"])
def test_a_file_that_is_there_stops_it_before_anything_is_written(tmp_path: Path, file: str) -> None:
    folder = tmp_path / "shop"
    (folder / file).parent.mkdir(parents=True)
    (folder / file).write_text("mine")
    with pytest.raises(Conflict, match=f"already there: .*{file}; nothing was written"):
        scaffold(folder)
    assert [path for path in folder.rglob("*") if path.is_file()] == [folder / file]
    assert (folder / file).read_text() == "mine"


def test_a_dangling_link_is_a_file_that_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "pyproject.toml").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Conflict):
        scaffold(folder)
    assert not (tmp_path / "elsewhere").exists()


def test_the_folder_that_one_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)
    scaffold(Path())
    assert 'name = "shop"' in (folder / "bext.config.toml").read_text()


@pytest.mark.parametrize("name", ["json", "class", "9lives", "bext-workflow", "tests", "ü", "--", "x" * 101, "pytest"])
def test_a_folder_whose_name_makes_no_package(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="makes no name for a plugin"):
        scaffold(tmp_path / name)
    assert not (tmp_path / name).exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        scaffold(tmp_path / "file" / "shop")
