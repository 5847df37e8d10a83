"""The page on `DistributedDataParallel`: its script is the file that it starts, numbers and all."""

import difflib
import re

import nbformat
from support.paths import CHAPTERS, SCRIPTS

from d2lmini.ddp import torchrun_command
from tools.figures import processes

PAGE = nbformat.read(CHAPTERS / "multiple-gpus-concise.ipynb", as_version=4)
MARKDOWN = [cell.source for cell in PAGE.cells if cell.cell_type == "markdown"]


def body(name):
    """Return a script without its docstring."""
    return (SCRIPTS / name).read_text(encoding="utf-8").split('"""', 2)[2].strip("\n")


def test_the_script_on_the_page_is_the_file():
    fences = re.findall(r"^```python\n(.*?)\n```$", "\n".join(MARKDOWN), re.MULTILINE | re.DOTALL)
    assert body("ddp_plain.py") in fences


def test_each_numbered_change_is_in_the_script_and_explained():
    wanted = [str(n + 1) for n in range(10)]
    assert list(dict.fromkeys(re.findall(r"  # (\d+)$", body("ddp_plain.py"), re.M))) == wanted
    (explained,) = [text for text in MARKDOWN if text.startswith("The ten changes")]
    assert re.findall(r"^(\d+)\. \*\*", explained, re.M) == wanted


def test_the_two_scripts_differ_in_the_numbered_changes_only():
    """But for imports, and for lines that one number stands for together."""
    one, many = (body(name).splitlines() for name in ("one_gpu_plain.py", "ddp_plain.py"))
    matcher = difflib.SequenceMatcher(a=one, b=many, autojunk=False)
    changes = [
        many[first:last]
        for kind, _, _, first, last in matcher.get_opcodes()
        if kind != "equal" and not all("import" in line for line in many[first:last])
    ]
    for lines in changes:
        assert re.search(r"  # \d+$|--batch-size", "\n".join(lines), re.M), lines


def test_the_page_shows_what_a_script_needs():
    shown = "\n".join(c.source for c in PAGE.cells if "remove-cell" not in str(c.metadata))
    for name in (
        "init_process_group", "LOCAL_RANK", "set_device", "DistributedSampler", "set_epoch",
        "DistributedDataParallel(", "all_reduce", "barrier", "destroy_process_group", "no_sync",
        "autocast", "GradScaler", "clip_grad_norm_", "map_location", "find_unused_parameters",
    ):  # fmt: skip
        assert name in shown, name


def test_the_figure_shows_lines_of_the_scripts():
    one, many = (body(name) for name in ("one_gpu_plain.py", "ddp_plain.py"))
    numbers = []
    for number, old, new in processes.SCRIPTS:
        assert old in one
        if number is None:
            assert old in many
            continue
        line = re.compile(rf"^.*{re.escape(new)}.*  # {number}$", re.M)
        assert new not in one
        assert line.search(many)
        numbers.append(number)
    assert numbers == list(range(1, 11))


def test_commands_are_those_that_the_launcher_takes():
    fences = re.findall(r"^```\w*\n(.*?)\n```$", "\n".join(MARKDOWN), re.MULTILINE | re.DOTALL)
    told = [re.sub(r"\s*\\\n\s*", " ", fence) for fence in fences]
    two = {"nproc_per_node": 8, "nnodes": 2, "endpoint": "first:29400", "python": "python"}
    resumes = ("train_ddp.py", "--checkpoint", "/shared/run.pt")
    for command in (
        torchrun_command("ddp_plain.py", **two),
        torchrun_command(*resumes, max_restarts=3, **two),
    ):
        line = " ".join(command).replace("python -m torch.distributed.run", "torchrun")
        assert line.removeprefix("env ") in told
