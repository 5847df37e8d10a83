"""Draw ``own-script.svg`` again: ``python -m tools.own_script``.

It shows a step of the run on the page *Bring Your Own Script*. The run takes up to a minute, so
``python -m tools.figures`` leaves this figure out.
"""

import re
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from simgpu.run import command, page
from simgpu.timeline import Timeline
from tools.figures.catalogue import IMAGE_DIR

ROOT = Path(__file__).resolve().parents[1]
PAGE = IMAGE_DIR.parent / "bring-your-own-script.md"
SCRIPT = ROOT / "tests" / "frameworks" / "scripts" / "small_gpt.py"
RANKS = ("rank 0 ", "rank 1 ")


def arguments(folder):
    """Return the arguments of the page's command, which writes its timeline into `folder`."""
    text = PAGE.read_text(encoding="utf-8")
    words = re.search(r"```\n\$ simgpu run (.*?[^\\])\n", text, re.DOTALL)[1]
    names = {"small_gpt.py": str(SCRIPT), "step.html": str(Path(folder) / "step.html")}
    return [names.get(word, word) for word in words.replace("\\\n", " ").split()]


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


if __name__ == "__main__":
    (IMAGE_DIR / "own-script.svg").write_text(draw(), encoding="utf-8")
