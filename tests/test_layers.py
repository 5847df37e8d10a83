"""Who may import whom: a table, no circles, and no import inside a function to dodge either."""

import ast
import subprocess
import sys
from importlib import import_module

import nbformat
import pytest
from support.paths import ROOT, TESTS

# Each line may import what stands above it, and its own line.
LAYERS = """
simgpu.units  simgpu.hardware  simgpu.races  simgpu.naming
simgpu.network
simgpu.clock
simgpu.backend
simgpu.backend.operations
simgpu.backend.pytorch
simgpu.saving  simgpu.configure
simgpu.ranks.process
simgpu.ranks.communication
simgpu.ranks.pytorch
simgpu.ranks
simgpu.list_gpus
simgpu.calibrate
simgpu
simgpu.timeline
simgpu.run
simgpu.__main__
d2lmini.devices  d2lmini.streams  d2lmini.plotting  d2lmini.data  d2lmini.resnet
d2lmini.timing  d2lmini.training  d2lmini.evaluation
d2lmini.recording  d2lmini.collectives
d2lmini.ddp  d2lmini.checks.shared
d2lmini.checks
d2lmini
chapters  tools
benchmarks
"""
PLACES = {name: i for i, line in enumerate(LAYERS.split("\n")) for name in line.split()}
SLOW_TO_IMPORT = {"sklearn", "IPython", "matplotlib", "torch.utils.benchmark"}
SLOW_TO_IMPORT |= {"d2lmini.data.cache"}  # pooch


def place(module):
    """Return the line of the longest name in the table that `module` begins with."""
    while module and module not in PLACES:
        module = module.rpartition(".")[0]
    return PLACES.get(module)


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    name_of(path): path
    for folder in ("simgpu", "d2lmini", "benchmarks", "tools", "chapters")
    for path in (ROOT / folder).rglob("*.py")
}
SUPPORT = {
    ".".join(path.relative_to(TESTS).with_suffix("").parts): path
    for path in (TESTS / "support").rglob("*.py")
}
PLAIN = {"torch", "numpy", "pytest", "simgpu", "support"} | sys.stdlib_module_names
# What only chapters, pages and tests need.
EXTRAS = {
    "matplotlib", "sklearn", "scipy", "pooch", "tqdm", "requests", "pandas", "PIL", "IPython",
    "hypothesis", "torchvision", "nbformat", "sphinx", "websocket",
}  # fmt: skip


def imports(path):
    """Yield (module, whether it is imported inside a function) for each import of the project's."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = {id(node) for function in functions for node in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            files = MODULES | SUPPORT
            found = [name if name in files else node.module for name in full]
        else:
            continue
        yield from ((name, id(node) in inside) for name in found)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_from_its_own_layer_and_those_before_it(module):
    for imported, _ in imports(MODULES[module]):
        assert imported.split(".")[0] != "tests", imported
        assert imported.split(".")[0] != "d2l" or module.startswith("benchmarks"), imported
        if place(imported) is not None:
            assert place(imported) <= place(module), f"{module} imports {imported}"


def test_no_circles():
    graph = {
        module: {name for name, _ in imports(path) if name in MODULES and name != module}
        for module, path in MODULES.items()
    }
    left = graph
    while True:  # take away what imports nothing that is left, and what nothing left imports
        imported = set().union(*left.values())
        kept = {m: (i & left.keys()) for m, i in left.items() if i & left.keys() and m in imported}
        if kept == left:
            break
        left = kept
    assert not left, f"these import each other: {left}"


@pytest.mark.parametrize("module", [m for m in MODULES if m.startswith(("simgpu", "d2lmini"))])
def test_imports_stand_at_the_top_except_those_that_are_slow(module):
    for imported, in_function in imports(MODULES[module]):
        if in_function:
            names = {imported, imported.split(".")[0]}
            assert names & SLOW_TO_IMPORT, f"{module} imports {imported}"


PUBLIC = ["simgpu", "simgpu.hardware", "simgpu.network", "simgpu.timeline", "simgpu.run"]
PUBLIC += ["simgpu.units", "simgpu.naming"]
OUTSIDE = [path for name, path in MODULES.items() if name.startswith(("d2lmini", "chapters"))]
OUTSIDE += sorted((ROOT / "chapters").glob("*.ipynb"))


def source(path):
    """Return the text of a module, or of a notebook's cells of code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return text
    cells = nbformat.reads(text, as_version=4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "code")


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(ROOT)))
def test_simgpu_is_used_by_its_public_names(path):
    for node in ast.walk(ast.parse(source(path))):
        if isinstance(node, ast.Import):
            deep = {alias.name for alias in node.names} - set(PUBLIC)
            assert not any(name.startswith("simgpu.") for name in deep), deep
        elif isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "simgpu":
            assert node.module in PUBLIC
            module = import_module(node.module)
            names = {alias.name for alias in node.names}
            public = getattr(module, "__all__", [n for n in vars(module) if n[0] != "_"])
            assert names <= set(public), f"{node.module}: {names - set(public)}"


def test_every_folder_of_the_package_says_what_it_is():
    packages = ("simgpu", "d2lmini")
    for folder in {path.parent for name in packages for path in (ROOT / name).rglob("*.py")}:
        text = (folder / "__init__.py").read_text(encoding="utf-8")
        assert ast.get_docstring(ast.parse(text)), folder


def test_tests_of_simgpu_need_torch_numpy_and_pytest_alone():
    left, done = [TESTS / "conftest.py", *(TESTS / "simgpu").rglob("*.py")], set()
    while left:
        path = left.pop()
        done.add(path)
        for imported, in_function in imports(path):
            if path.name == "conftest.py" and in_function:
                continue  # of a fixture that these tests do not use
            name = imported.split(".")[0]
            beside = (path.parent / f"{name}.py").exists()
            assert name in PLAIN or beside, f"{path} imports {imported}"
            if imported in SUPPORT and SUPPORT[imported] not in done:
                left.append(SUPPORT[imported])
    assert TESTS / "support" / "samples" / "op_samples.py" in done


@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        ("simgpu, simgpu.run.command, simgpu.__main__", {*EXTRAS, "d2lmini"}),
        ("d2lmini, d2lmini.ddp, d2lmini.data", EXTRAS),
    ],
)
def test_what_only_chapters_need_may_be_absent(modules, absent):
    program = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import {modules}
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
