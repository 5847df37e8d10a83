"""Fetch all packages of requirements.txt, for a machine that has no network: ``make wheels``.

They go to ``wheels/``. Copy the repository with this folder to the other machine: ``make book`` and
all other commands install from it there, and ask no network. Further arguments are pip's, for a
machine of another kind::

    make wheels ARGS="--python-version 3.12 --platform manylinux_2_28_x86_64 --only-binary=:all:"
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "wheels"


def command(requirements, folder, arguments=()):
    """Return the command that fetches the packages."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-q"]
    return [*pip, "-r", str(requirements), "-d", str(folder), *arguments]


def main(arguments=None, requirements=ROOT / "requirements.txt", folder=FOLDER):
    """Command line: fetches the packages and says how large they are."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    if status := subprocess.call(command(requirements, folder, arguments)):
        print("wheels: not all packages were fetched, see above", file=sys.stderr)
        return status
    files = [path for path in Path(folder).iterdir() if path.is_file()]
    gigabytes = sum(path.stat().st_size for path in files) / 1e9
    print(f"wheels: {len(files)} packages, {gigabytes:.1f} GB, in {folder}")
    print("Copy the repository with this folder: there, `make book` needs no network.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
