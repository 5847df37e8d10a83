"""Numbers with a unit in the chapters' texts: computed, of a data sheet, with a source, or listed.

Texts glue what cells compute. A number that is typed must stand in the page's own code or outputs,
be a constant of the simulated hardware, or have a source in its paragraph; all others are in
`STATED`, with a reason. What an exercise or a guess says is given, not found.
"""

import ast
import math
import operator
import re
from functools import cache

import nbformat
from support.each import each
from support.paths import ROOT

from simgpu.hardware.links import LINKS
from simgpu.hardware.presets import GPUS
from simgpu.network.networks import NETWORKS

PAGES = sorted((ROOT / "chapters").glob("*.ipynb"))
SCALE = {"": 1, "n": 1e-9, "µ": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
SCALE |= {"P": 1e15, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
UNIT = r"(?P<prefix>[nµmkMGTP]i?)??(?P<unit>s|B|B/s|bit/s|FLOPs?|FLOP/s|W|Hz|bytes?|seconds?|%)"
NUMBER = re.compile(
    rf"(?<![\w.,$\\^-])(?P<digits>\d[\d,]*(?:\.\d+)?)(?:&nbsp;|[ \u202f-]|(?=%)){UNIT}(?![\w/])"
)
# What is given, or checked elsewhere: guesses, code, exercises, and how long a page or one takes.
GIVEN = re.compile(
    r"(?ms)^(`{3,}|:{3,})\{guess\}.*?^\1$|^```.*?^```$|^### Exercise .*"
    r"|^\*[^*\n]*minutes?[^*\n]*\*$"
)
MARKS = re.compile(r"(?s)\$\$.*?\$\$|\$[^$\n]*\$|\{[a-z:]+\}`[^`]*`|`[^`]*`|\]\([^)]*\)")
SOURCE = re.compile(r"\{cite(:[pt])?\}`|\]\(https?:|\]\(how-far-to-trust-the-clock\.md")
WORKED_OUT = {ast.Mult: operator.mul, ast.Pow: operator.pow, ast.Div: operator.truediv}
SIZES = {1, 2, 4, 8, 12, 16}  # bytes of a number, or of a parameter with its states

STATED = {
    "overlap-and-scaling": {
        "1000 MiB": "the cell's bucket_cap_mb, which is in MiB",
        "204.8 GB/s": "eight channels of DDR4-3200: 8 x 8 bytes x 3.2e9 transfers a second",
        "1.6 GB/s": "the sentence shows the division: 12.5 / 8",
    },
    "pipeline-parallelism": {"30%": "the answer of the guess above it, which a cell checks"},
    "rules-of-thumb": {"1 MiB": "simgpu.network.FILL"},
    "simulator": {"1 %": "the tolerance of --ranks: simgpu.ranks.representatives"},
    "wires": {
        "450 GB/s": "half of the 900 in the same sentence",
        "7 %": "2**30 / 10**9",
        "1 MiB": "where a line of the figure lies above the points",
    },
}


def value(node):
    """Return the number that a part of a program is, None for anything else."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)
    if isinstance(node, ast.BinOp) and type(node.op) in WORKED_OUT:
        left, right = value(node.left), value(node.right)
        if left is not None and right:
            return WORKED_OUT[type(node.op)](left, right)
    return None


@cache
def known_of(path):
    """Return the numbers of a page's code, and the text of its code and outputs."""
    numbers, texts = set(), []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type != "code":
            continue
        source = re.sub(r"^[%!].*$", "pass", cell.source, flags=re.MULTILINE)
        numbers |= {value(node) for node in ast.walk(ast.parse(source))} - {None}
        data = [output.get("data", {}).get("text/plain", "") for output in cell.outputs]
        texts += [cell.source, *data, *(output.get("text", "") for output in cell.outputs)]
    return sorted(numbers), "\n".join(texts)


@cache
def hardware():
    """Return the constants of the simulated hardware, which have sources of their own."""
    found = [number for gpu in GPUS.values() for number in gpu.flops.values()]
    for part in (*GPUS.values(), *LINKS.values(), *NETWORKS.values()):
        found += [v for v in vars(part).values() if type(v) in (int, float)]
    return found + [gpu.memory / 2**30 * 1e9 for gpu in GPUS.values()]  # sold as GB


def is_among(number, numbers):
    """Return whether a number is one of those, but for rounding."""
    return any(math.isclose(number, other, rel_tol=1e-3) for other in numbers)


def is_known(found, path):
    """Return whether a number of a text stands in the page's code or outputs, or is hardware's."""
    digits, unit = float(found["digits"].replace(",", "")), found["unit"]
    if unit.startswith("byte") and digits in SIZES:
        return True
    base = digits * SCALE[found["prefix"] or ""] / {"bit/s": 8, "%": 100}.get(unit, 1)
    bases = (base, 1 + base, 1 - base) if unit == "%" else (base,)  # 10 % longer: 1.1 times
    numbers, text = known_of(path)
    printed = rf"(?<![\d.]){re.escape(found['digits'])}(\.0+)? ?{found['prefix'] or ''}{unit}"
    known = [*numbers, *hardware()]
    return any(is_among(base, known) for base in bases) or bool(re.search(printed, text))


def typed(path):
    """Yield the numbers with units that are typed into a page's text, and what stands around."""
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type != "markdown":
            continue
        for paragraph in GIVEN.sub("", cell.source).split("\n\n"):
            if SOURCE.search(paragraph):
                continue
            text = MARKS.sub("", paragraph)
            for found in NUMBER.finditer(text):
                yield found, " ".join(text[max(found.start() - 50, 0) : found.end() + 20].split())


def unexplained(path):
    """Return the numbers of a page that nothing computes and nobody has listed, with their text."""
    stated = STATED.get(path.stem, {})
    return [
        around
        for found, around in typed(path)
        if found[0] not in stated and not is_known(found, path)
    ]


@each(PAGES, lambda path: path.stem)
def test_a_number_with_a_unit_is_computed_sourced_or_listed(path):
    assert unexplained(path) == [], "glue it, give its source, or list it in STATED with a reason"


@each(PAGES, lambda path: path.stem)
def test_what_is_listed_still_stands_there(path):
    unknown = {found[0] for found, _ in typed(path) if not is_known(found, path)}
    assert set(STATED.get(path.stem, {})) <= unknown


def test_a_bare_measurement_is_found(tmp_path):
    page = nbformat.read(ROOT / "chapters" / "auto-parallelism.ipynb", as_version=4)
    page.cells.append(nbformat.v4.new_markdown_cell("This sentence took 17 ms on an 80-GB card."))
    nbformat.write(page, tmp_path / "auto-parallelism.ipynb")
    found = unexplained(tmp_path / "auto-parallelism.ipynb")
    assert found == ["This sentence took 17 ms on an 80-GB card."]
