"""Create .venv and install what the project needs; does nothing where that is already done.

Standard library only, and no syntax newer than f-strings: an unsupported Python is to get a
message.
"""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

OLDEST, NEWEST = (3, 10), (3, 13)
SPACE_GB = 3  # what an installation without CUDA takes, with a margin
VENV = Path(".venv")
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "installed-from"  # its first line alone while an installation is not finished

FAILED = """\
set-up: this failed, see above. Run the same command again once
- the package registry can be reached (see: pip config list). Without network,
  take the folder that `make wheels` writes elsewhere; if wheels/ is here, it may lack a package.
- the disk has room: 3 GB, or 8 GB with CUDA.
It goes on where it stopped; `rm -r .venv` makes it start anew."""


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
    """Return the stamp of an installation, or nothing; without a line's end it is not finished."""
    return STAMP.read_bytes() if PYTHON.exists() and STAMP.exists() else b""


def install(stamp):
    """Bring .venv from whatever state it is in to the one that is wanted."""
    print(
        f"set-up: installing requirements.txt into {VENV}, once: {SPACE_GB} GB at most (with CUDA "
        "8), about ten minutes; after Ctrl-C the same command goes on where it stopped",
        flush=True,
    )
    place = stamp.split(b"\n")[0]
    if installed().split(b"\n")[0] != place:
        refuse_that_of_another_checkout()
        call([sys.executable, "-m", "venv", "--clear", VENV.resolve()])  # .venv may be a link
    STAMP.write_bytes(place)  # what is interrupted from here on goes on with this environment
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install"]
    if Path("wheels").is_dir():
        pip += ["--no-index", "--find-links", "wheels"]
    what = ["-r", "requirements.txt", "--editable", "."]
    if sys.stdout.isatty():
        follow([*pip, *what])
    else:
        call([*pip, "-q", *what])
    STAMP.write_bytes(stamp)


def refuse_that_of_another_checkout():
    """Refuse a link to another checkout's environment, which would be emptied."""
    place = os.fsdecode(installed().split(b"\n")[0].partition(b" ")[2])
    if place not in ("", os.getcwd()) and (Path(place) / VENV).resolve() == VENV.resolve():
        sys.exit(
            f"set-up: {VENV} is a link to the environment of {place}, which leads to the code "
            f"there. Remove the link (rm {VENV}), and this checkout gets one of its own."
        )


def call(step):
    """Run a command, and end with advice where it fails."""
    if subprocess.call(step):
        sys.exit(FAILED)


def follow(step):
    """Run pip, and show every second how far it is; it is silent while it installs."""
    began, packages = time.monotonic(), Packages()
    with subprocess.Popen(step, stdout=subprocess.PIPE, universal_newlines=True) as pip:
        reader = threading.Thread(target=lambda: [*map(packages.read, pip.stdout)], daemon=True)
        reader.start()
        while reader.is_alive():
            reader.join(1)
            minutes, seconds = divmod(round(time.monotonic() - began), 60)
            print(f"\r{packages.text():<70} {minutes}:{seconds:02}", end="", flush=True)
    print()
    if pip.returncode:
        sys.exit(FAILED)


class Packages:
    """What pip has said of packages so far."""

    def __init__(self):
        self.named, self.file, self.before, self.all = 0, "", 0, 0

    def read(self, line):
        """Take a line of pip's."""
        if line.startswith(("Collecting ", "Requirement already satisfied: ")):
            self.named += 1
        elif found := re.search(r"(?:Downloading|Using cached) (?:\S*/)?(\w+)-.*(\(.*\))", line):
            self.file = " ".join(found.groups())
        elif line.startswith("Installing collected packages: "):
            self.before, self.all = count_installed(), line.count(",") + 1

    def text(self):
        """Return how far it is, in words."""
        if self.all:
            done = min(max(count_installed() - self.before, 0) + 1, self.all)
            return f"set-up: installing package {done} of {self.all}"
        return f"set-up: fetching package {self.named}: {self.file}"


def count_installed():
    """Return how many packages are in .venv."""
    return len([*VENV.glob("lib/python*/site-packages/*.dist-info")])


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
