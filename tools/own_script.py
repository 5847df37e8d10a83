"""What the page *Bring Your Own Script* takes from elsewhere: ``python -m tools.own_script``.

It draws ``own-script.svg``, a step of the run on the page, and writes how wrong the gain of
compiled programs is, from the record in records/. The run takes up to a minute, so
``python -m tools.figures`` leaves this figure out.
"""

import re
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from benchmarks.compiled import record
from benchmarks.compiled.table import largest_error, median_error
from simgpu.run import command, page
from simgpu.timeline import Timeline
from tools.figures.catalogue import IMAGE_DIR

ROOT = Path(__file__).resolve().parents[1]
PAGE = IMAGE_DIR.parent / "bring-your-own-script.md"
SCRIPT = ROOT / "tests" / "frameworks" / "scripts" / "small_gpt.py"
RANKS = ("rank 0 ", "rank 1 ")
COMMAND = re.compile(r"```\n\$ simgpu (run (?:.*\\\n)*.*)\n")
GAIN = re.compile(r"(?<=How wrong is such a gain\? )[^\n]+")


def compared():
    """Return what predicted gains were compared with, and how far off they were."""
    rows = record.read()
    median, most = median_error(rows), abs(largest_error(rows))
    pairs = f"[{len(rows)} published pairs](how-far-to-trust-the-clock.md#compiled-pairs)"
    return (
        f"In {pairs} of the same program, eager and compiled, the predicted gain is off by "
        f"{100 * median:.1f} % in the median and by {100 * most:.0f} % at worst."
    )


def commands():
    """Return the page's commands that run scripts, each in one line that begins with `run`."""
    found = COMMAND.findall(PAGE.read_text(encoding="utf-8"))
    return [" ".join(command.replace("\\\n", " ").split()) for command in found]


def arguments(folder):
    """Return the arguments of the page's command that writes a timeline, here into `folder`."""
    words = next(command for command in commands() if "step.html" in command)
    names = {"small_gpt.py": str(SCRIPT), "step.html": str(Path(folder) / "step.html")}
    return [names.get(word, word) for word in words.split()[1:]]


def draw():
    """Return the figure: the last step on two of the ranks."""
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        write = stack.enter_context(mock.patch.object(page, "write"))
        if command.main(arguments(folder)):
            raise RuntimeError("the page's command has failed; what it has printed says why")
    _, spans, steps, _ = write.call_args.args
    spans = [span for span in spans if span.device.startswith(RANKS)]
    return Timeline(spans, *steps.ends()[-2:]).to_svg()


def main():
    """Write the sentence and the figure."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(GAIN.sub(lambda _: compared(), text), encoding="utf-8")
    (IMAGE_DIR / "own-script.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
