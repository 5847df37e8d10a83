"""Create .venv and install what the project needs; does nothing where that is already done.

Not a rule of make, which knows files by their dates: it would not see that a checkout was copied,
that a set-up was interrupted or that another one is running, and Windows mostly has no make.

Runs under any Python, so that an unsupported one gets a message and not a syntax error: no
f-strings, standard library only.
"""
# ruff: noqa: RUF005, UP032

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import time

OLDEST, NEWEST = (3, 10), (3, 13)
SPACE_GB = 3.0  # what a CPU-only installation takes, with a margin
VENV = ".venv"
STAMP = os.path.join(VENV, "installed-from")  # only a finished installation has it
LOCK = ".venv.lock"
WHEELS = "wheels"  # what `make wheels` has fetched; where it is there, no network is needed

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
    (
        ("Permission denied", "Read-only file system"),
        "Set-up writes {} and {} in the checkout. Make them writable, or use a copy of the\n"
        "checkout that is yours.".format(VENV, LOCK),
    ),
]


def say(message):
    """Tell the reader what is going on, at once."""
    sys.stdout.write("set-up: " + message + "\n")
    sys.stdout.flush()


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


def check_place(folder=None):
    """Refuse a checkout where no environment can be made."""
    folder = folder or os.getcwd()
    for character in (os.pathsep, "$"):  # venv refuses the one, setuptools fails on the other
        if character in folder:
            fail("the checkout's path contains '{}': {}\nMove it.".format(character, folder))
    if os.path.lexists(VENV) and not os.path.isdir(VENV):
        fail("{} is no folder. Remove it and run the same command again.".format(VENV))


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
    """Return the remedy for what went wrong, if it is a known one."""
    for needles, hint in HINTS:
        if any(needle in log for needle in needles):
            return hint
    return ""


def fingerprint():
    """Describe what an installation depends on: its Python and place, then what is in it.

    The place, because an environment's programs and the project's entry in it are absolute paths:
    those of a copied or moved checkout lead to where it came from.
    """
    place = "{}.{} {}".format(*sys.version_info[:2], os.path.realpath("."))
    content = [sys.version.encode()]
    for name in ("requirements.txt", "pyproject.toml"):
        with open(name, "rb") as f:
            content.append(f.read())
    return [hashlib.sha256(part).hexdigest() for part in (os.fsencode(place), b"".join(content))]


def installed():
    """Return the fingerprint of what .venv holds; nothing if that is not complete."""
    if not (os.path.exists(python()) and os.path.exists(STAMP)):
        return []
    with open(STAMP) as f:
        return f.read().split()


def python():
    """Return the path of the environment's Python."""
    folder, name = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return os.path.join(VENV, folder, name)


def lock(file):
    """Wait until no other set-up of this checkout runs, and keep it so while the file is open."""
    waiting = False
    while True:
        try:
            return try_lock(file)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
                raise
        if not waiting:
            say("waiting for another set-up of this checkout")
        waiting = True
        time.sleep(0.2)


def try_lock(file):
    """Lock a file, or raise OSError; closing it unlocks it, and so does the process's end."""
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def run(command, held):
    """Run a part of the installation; show its output and explain a failure."""
    # Killed alone, this process leaves the part running: the lock passes to it.
    kept = () if os.name == "nt" else (held.fileno(),)
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=kept
    )
    log = []
    for line in process.stdout:
        text = line.decode("utf-8", "replace")
        log.append(text)
        if not text.startswith("WARNING"):
            sys.stdout.write(text)
            sys.stdout.flush()
    if process.wait():
        fail(explain("".join(log)) or "this failed, see above: {}".format(" ".join(command)))


def install(wanted, held):
    """Bring .venv from whatever state it is in to the one that is wanted."""
    check_space()
    is_ours = installed()[:1] == wanted[:1]
    if os.path.exists(STAMP):
        os.remove(STAMP)  # what is interrupted from here on is made anew
    if not is_ours:
        say("creating {} with Python {}".format(VENV, sys.version.split()[0]))
        run([sys.executable, "-m", "venv", "--clear", VENV], held)
    say("installing requirements.txt into {} (some minutes, once)".format(VENV))
    pip = [python(), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    pip += from_wheels()
    run(pip + ["-r", "requirements.txt"], held)
    run(pip + ["--no-deps", "--editable", "."], held)
    with open(STAMP, "w") as f:
        f.write("\n".join(wanted))
    say("done")


def from_wheels(folder=WHEELS):
    """Return the options of pip that have it install from a folder alone, if there is one."""
    if not os.path.isdir(folder):
        return []
    say("taking the packages from {}, without network".format(folder))
    return ["--no-index", "--find-links", folder]


def main():
    """Install into .venv unless it already holds exactly this."""
    check_python()
    wanted = fingerprint()
    try:
        if installed() != wanted:
            check_place()
            with open(LOCK, "a") as held:
                lock(held)
                if installed() != wanted:  # the one that was waited for may have done it
                    install(wanted, held)
    except OSError as error:
        fail("{}\n{}".format(error, explain(str(error))).rstrip())
    except KeyboardInterrupt:
        fail("interrupted. Run the same command again.")


if __name__ == "__main__":
    main()
