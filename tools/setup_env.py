"""Create .venv and install what the project needs; does nothing where that is already done.

Standard library only, and no syntax newer than f-strings: an unsupported Python is to get a
message.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

OLDEST, NEWEST = (3, 10), (3, 13)
SPACE_GB = 3  # what an installation without CUDA takes, with a margin
VENV = Path(".venv")
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "installed-from"  # only a finished installation has it

FAILED = """\
set-up: this failed, see above. Run the same command again once
- the package registry can be reached (see: pip config list). Without network,
  take the folder that `make wheels` writes elsewhere; if wheels/ is here, it may lack a package.
- the disk has room: 3 GB, or 8 GB with CUDA."""


def check(version, free):
    """Refuse a Python or a disk, with `free` bytes, that an installation cannot do with."""
    if not OLDEST <= version <= NEWEST:
        sys.exit(
            f"set-up: Python {version[0]}.{version[1]} is not supported; this project needs "
            f"3.{OLDEST[1]} to 3.{NEWEST[1]}.\n"
            "Name another one, for instance: make book PYTHON=python3.12"
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        sys.exit(
            "set-up: this Python has no module venv. On Debian and Ubuntu: apt install "
            f"python{version[0]}.{version[1]}-venv"
        )
    if free < SPACE_GB * 1e9:
        sys.exit(
            f"set-up: the disk is full: {free / 1e9:.1f} GB are free, and an installation takes "
            f"{SPACE_GB} GB (with CUDA 8 GB)."
        )


def wanted():
    """Return what the stamp says where nothing is to be done.

    Its first line has the checkout's place, because an environment's paths are absolute: those of
    a copied or moved checkout lead to where it came from.
    """
    first = os.fsencode("{}.{} {}\n".format(*sys.version_info[:2], os.getcwd()))
    return first + b"".join(Path(n).read_bytes() for n in ("requirements.txt", "pyproject.toml"))


def installed():
    """Return the stamp of a finished installation, or nothing."""
    return STAMP.read_bytes() if PYTHON.exists() and STAMP.exists() else b""


def install(stamp):
    """Bring .venv from whatever state it is in to the one that is wanted."""
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install"]
    if not sys.stdout.isatty():
        pip.append("-q")  # else every package is named, and its size while it is fetched
    if Path("wheels").is_dir():
        pip += ["--no-index", "--find-links", "wheels"]
    steps = [[*pip, "-r", "requirements.txt", "--editable", "."]]
    if installed().split(b"\n")[0] != stamp.split(b"\n")[0]:
        steps.insert(0, [sys.executable, "-m", "venv", "--clear", VENV])
    if STAMP.exists():
        STAMP.unlink()  # what is interrupted from here on is made anew
    print(
        f"set-up: installing requirements.txt into {VENV}, once: {SPACE_GB} GB at most (with CUDA "
        "8), about ten minutes; after Ctrl-C, what was fetched need not be fetched again",
        flush=True,
    )
    for step in steps:
        if subprocess.call(step):
            sys.exit(FAILED)
    STAMP.write_bytes(stamp)


def main():
    """Install into .venv unless it already holds exactly this."""
    if installed() == wanted():
        return
    check(sys.version_info[:2], shutil.disk_usage(".").free)
    with open(".venv.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit("set-up: another one is running here; wait for it, then try again.")
        install(wanted())


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends this without a traceback
    main()
