"""``simgpu plan`` in this process."""

from simgpu.__main__ import main


def plan(capsys, *arguments):
    """Return the exit code, and what is printed."""
    try:
        code = main(["plan", *map(str, arguments)])
    except SystemExit as error:
        code = error.code
    found = capsys.readouterr()
    return code, found.out + found.err
