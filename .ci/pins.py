"""Rewrite the pins in pyproject.toml: exact versions, without addresses, of the whole resolved workspace.

python .ci/pins.py              pin what was added since, keep the rest
python .ci/pins.py --upgrade    pin the newest versions
python .ci/pins.py --check      change nothing; exit 1 if the pins are incomplete or stale
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = ROOT / "pyproject.toml"
BEGIN = "# pins: begin (written by .ci/pins.py)"
END = "# pins: end"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--upgrade", action="store_true")
    mode.add_argument("--check", action="store_true")
    options = parser.parse_args()

    before = PYPROJECT.read_text(encoding="utf-8")
    if options.upgrade:
        PYPROJECT.write_text(with_block(before, ""), encoding="utf-8")
    try:
        after = with_block(before, block(runtime_pins(upgrade=options.upgrade), build_pins()))
    except BaseException:
        if options.upgrade:
            PYPROJECT.write_text(before, encoding="utf-8")
        raise

    if options.check:
        if after != before:
            print("the pins in pyproject.toml are stale: run python .ci/pins.py", file=sys.stderr)
        return int(after != before)
    PYPROJECT.write_text(after, encoding="utf-8")
    return 0


def runtime_pins(*, upgrade: bool) -> list[str]:
    uv("lock", *(["--upgrade"] if upgrade else []))
    selection = ["--all-packages", "--all-extras", "--all-groups", "--no-emit-workspace"]
    return pins(uv("export", "--frozen", *selection, "--no-hashes", *PLAIN))


def build_pins() -> list[str]:
    """What builds the distributions; `uv pip compile` reads the pins in pyproject.toml, so it keeps them."""
    requires = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["build-system"]["requires"]
    return pins(uv("pip", "compile", "-", *PLAIN, stdin="\n".join(requires)))


PLAIN = ("--no-annotate", "--no-header", "--quiet")


def pins(requirements: str) -> list[str]:
    """One `name==version` a line; a marker is kept only where one name has several versions."""
    pairs = [line.partition(" ;")[::2] for line in requirements.splitlines() if "==" in line.partition(";")[0]]
    versions = Counter(pin.partition("==")[0] for pin, _ in pairs)
    return sorted(f"{pin} ;{marker}" if versions[pin.partition("==")[0]] > 1 else pin for pin, marker in pairs)


def block(runtime: list[str], build: list[str]) -> str:
    return array("constraint-dependencies", runtime) + array("build-constraint-dependencies", build)


def array(key: str, lines: list[str]) -> str:
    return "".join([f"{key} = [\n", *(f'    "{line}",\n' for line in lines), "]\n"])


def with_block(pyproject: str, content: str) -> str:
    head, begin, rest = pyproject.partition(BEGIN + "\n")
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{PYPROJECT} has no lines {BEGIN!r} and {END!r}")
    return head + begin + content + end + tail


def uv(*arguments: str, stdin: str | None = None) -> str:
    return subprocess.run(
        ["uv", *arguments], cwd=ROOT, input=stdin, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


if __name__ == "__main__":
    sys.exit(main())
