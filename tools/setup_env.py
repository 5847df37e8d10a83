"""Create .venv and install what the project needs; does nothing where that is already done.

Runs under any Python, so that an unsupported one gets a message and not a syntax error: no
f-strings, standard library only.
"""
# ruff: noqa: UP032

import hashlib
import os
import shutil
import subprocess
import sys

OLDEST, NEWEST = (3, 10), (3, 13)
SPACE_GB = 3.0  # what a CPU-only installation takes, with a margin
VENV = ".venv"
STAMP = os.path.join(VENV, "installed-from")

HINTS = [
    (
        ("No space left on device", "Errno 28"),
        "The disk is full. Free some gigabytes (a CPU-only installation takes 2 GB, one with\n"
        "CUDA about 8 GB) and run the same command again.",
    ),
    (
        (
            "Max retries exceeded",
            "Temporary failure in name resolution",
            "NewConnectionError",
            "Failed to establish a new connection",
            "ConnectTimeoutError",
            "Could not fetch URL",
            "from versions: none",
        ),
        "The package registry cannot be reached, or it does not have one of the packages.\n"
        "Check the network or proxy (pip config list), then run the same command again.",
    ),
]


def fail(message):
    """End with a message for the reader, without a traceback."""
    sys.stderr.write("\nset-up: " + message + "\n")
    sys.exit(1)


def check_python(version=None):
    """Refuse a Python outside the supported range."""
    version = tuple(version or sys.version_info[:2])
    if not OLDEST <= version <= NEWEST:
        fail(
            "Python {}.{} is not supported; this project needs 3.{} to 3.{}.\n"
            "Name another one, for instance: make book PYTHON=python3.12\n"
            "(without make: python3.12 -m tools.make book)".format(
                version[0], version[1], OLDEST[1], NEWEST[1]
            )
        )


def check_space(free=None):
    """Refuse to start an installation that cannot fit on the disk."""
    free = shutil.disk_usage(".").free if free is None else free
    if free < SPACE_GB * 1e9:
        fail(
            "only {:.1f} GB are free on the disk that holds {}; an installation takes\n"
            "{:.0f} GB (with CUDA about 8 GB). Free some space and run the same command "
            "again.".format(free / 1e9, os.getcwd(), SPACE_GB)
        )


def explain(log):
    """Return the remedy for what pip printed."""
    for needles, hint in HINTS:
        if any(needle in log for needle in needles):
            return hint
    return "pip failed; its last lines are above."


def fingerprint():
    """Describe what an installation depends on: the pins, the metadata, the Python."""
    digest = hashlib.sha256(sys.version.encode())
    for name in ("requirements.txt", "pyproject.toml"):
        with open(name, "rb") as f:
            digest.update(f.read())
    return digest.hexdigest()


def made_by_this_python():
    """Say whether the environment is there and has the running Python's minor version."""
    config = os.path.join(VENV, "pyvenv.cfg")
    if not os.path.exists(config):
        return False
    with open(config) as f:
        return "version = {}.{}.".format(*sys.version_info[:2]) in f.read()


def python():
    """Return the path of the environment's Python."""
    return os.path.join(VENV, "Scripts" if os.name == "nt" else "bin", "python")


def pip(*arguments):
    """Run pip in the environment; show its output and explain a failure."""
    command = [python(), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    process = subprocess.Popen(
        command + list(arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    log = []
    for line in process.stdout:
        text = line.decode("utf-8", "replace")
        log.append(text)
        if not text.startswith("WARNING"):
            sys.stdout.write(text)
            sys.stdout.flush()
    if process.wait():
        fail(explain("".join(log)))


def main():
    """Install into .venv unless it already holds exactly this."""
    check_python()
    wanted = fingerprint()
    if os.path.exists(STAMP):
        with open(STAMP) as f:
            if f.read() == wanted:
                return
    check_space()
    if not made_by_this_python():
        print("set-up: creating {} with Python {}".format(VENV, sys.version.split()[0]))
        import venv

        venv.create(VENV, with_pip=True, clear=True)
    print("set-up: installing requirements.txt into {} (some minutes, once)".format(VENV))
    pip("-r", "requirements.txt")
    pip("--no-deps", "--editable", ".")
    with open(STAMP, "w") as f:  # written last: an interrupted installation starts again
        f.write(wanted)
    print("set-up: done")


if __name__ == "__main__":
    main()
