"""The page on sharding: its script is the file that it starts, with every mark explained."""

import re

import nbformat
from support.paths import CHAPTERS, SCRIPTS

PAGE = nbformat.read(CHAPTERS / "memory-and-sharding.ipynb", as_version=4)
TEXT = "\n".join(cell.source for cell in PAGE.cells if cell.cell_type == "markdown")
SOURCE = (SCRIPTS / "fsdp_plain.py").read_text(encoding="utf-8").split('"""', 2)[2].strip("\n")


def test_the_script_on_the_page_is_the_file():
    assert SOURCE in re.findall(r"^```python\n(.*?)\n```$", TEXT, re.MULTILINE | re.DOTALL)


def test_each_mark_is_in_the_script_and_explained():
    marks = sorted(set(re.findall(r"  # (\d+)$", SOURCE, re.MULTILINE)))
    explained = TEXT.partition(SOURCE)[2].partition("\n## ")[0].partition("\n### ")[0]
    assert re.findall(r"^(\d+)\. \*\*", explained, re.MULTILINE) == marks
    assert marks == [str(n + 1) for n in range(len(marks))]


def test_the_page_shows_what_a_script_needs():
    for name in (
        "fully_shard(", "MixedPrecisionPolicy(", "set_requires_gradient_sync(", "clip_grad_norm_(",
        "dcp.save(", "dcp.load(", "set_state_dict(", "to_empty(", "reshard_after_forward",
        "CPUOffloadPolicy", "init_device_mesh(", "GradScaler", "checkpoint(",
    ):  # fmt: skip
        assert name in TEXT, name


def test_the_calculator_loads_what_its_own_page_loads():
    own = (CHAPTERS / "calculators.md").read_text(encoding="utf-8")
    needed = re.findall(r"<script .*</script>", own)
    others = re.compile("published|nearest|allreduce")  # of compare, of collectives
    needed = [line for line in needed if not others.search(line)]
    block = re.search(r"^```\{raw\} html\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)[1]
    assert re.findall(r"<script .*</script>", block) == needed != []
    assert '<link rel="stylesheet" href="../_static/play.css">' in block
    assert 'data-of="memory"' in block


def test_old_words_are_gone():
    assert not re.search(r"\b(averages|sentences|WORDS)\b", TEXT)
