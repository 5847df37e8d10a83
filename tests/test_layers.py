"""Who may import whom: a table, no circles, and no import inside a function to dodge either."""

import ast
import subprocess
import sys
from collections import Counter
from importlib import import_module

import pytest
from support.paths import ROOT, TESTS
from support.suite.imports import FOLDERS, imports, modules_in, source

# Each line may import what stands above it, and its own line.
LAYERS = """
simgpu.nearest  simgpu.command_line
simgpu.units  simgpu.rates_and_sizes  simgpu.hardware  simgpu.naming  simgpu.user_frame
simgpu.callable_module
simgpu.races
simgpu.network
simgpu.clock
simgpu.device_api
simgpu.kernels
simgpu.backend
simgpu.backend.operations  simgpu.backend.attention
simgpu.backend.pytorch
simgpu.saving  simgpu.configuration
simgpu.compiled
simgpu.ranks.process
simgpu.ranks.communication
simgpu.ranks.pytorch
simgpu.ranks
simgpu.list_gpus
simgpu.calibration
simgpu.api  simgpu
simgpu.timeline
simgpu.bands
simgpu.run
simgpu.check
simgpu.plan
simgpu.search
simgpu.compare
simgpu.__main__
d2lmini.devices  d2lmini.streams  d2lmini.plotting  d2lmini.data
d2lmini.resnet  d2lmini.language_model
d2lmini.timing  d2lmini.training  d2lmini.evaluation
d2lmini.recording  d2lmini.collectives
d2lmini.ddp  d2lmini.checks.shared
d2lmini.checks  d2lmini.pages
d2lmini
chapters
benchmarks
tools
"""
PLACES = {name: i for i, line in enumerate(LAYERS.split("\n")) for name in line.split()}
SLOW_TO_IMPORT = {"sklearn", "IPython", "matplotlib", "torch.utils.benchmark"}
SLOW_TO_IMPORT |= {"d2lmini.data.cache"}  # pooch
SLOW_TO_IMPORT |= {
    "simgpu.api", "simgpu.calibration", "simgpu.run.command", "simgpu.check.command",
    "simgpu.plan.command", "simgpu.plan.report", "simgpu.plan.request",
    "simgpu.search.command", "simgpu.compare.command", "simgpu.compare.comparison",
}  # PyTorch; see simgpu/__main__.py  # fmt: skip
MOST_MODULES = 14  # in one folder, __init__.py included


def place(module):
    """Return the line of the longest name in the table that `module` begins with."""
    while module and module not in PLACES:
        module = module.rpartition(".")[0]
    return PLACES.get(module)


MODULES = modules_in(ROOT)
SUPPORT = modules_in(TESTS, ["support"])
FILES = MODULES | SUPPORT
PLAIN = {"torch", "numpy", "pytest", "_pytest", "simgpu", "support"} | sys.stdlib_module_names
# What only chapters, pages and tests need.
EXTRAS = {
    "matplotlib", "sklearn", "scipy", "pooch", "tqdm", "requests", "pandas", "PIL", "IPython",
    "hypothesis", "torchvision", "nbformat", "sphinx", "websocket",
}  # fmt: skip


def may_import(module, imported):
    """Say whether the table, and what is for tests or benchmarks alone, permit an import."""
    if imported.split(".")[0] == "tests":
        return False
    if imported.split(".")[0] == "d2l":
        return module.startswith("benchmarks")
    return place(imported) is None or place(imported) <= place(module)


def test_modules_import_only_from_their_own_layer_and_those_before_it():
    offenders = [
        f"{module} imports {imported}"
        for module, path in MODULES.items()
        for imported, _ in imports(path, FILES)
        if not may_import(module, imported)
    ]
    assert offenders == []


def folder_of(module):
    """Return the folder of a module; a module at the top of its package is a place of its own."""
    parts = MODULES[module].relative_to(ROOT).parts
    return ".".join(parts[:-1]) if len(parts) > 2 else module


def graph(packages, node_of=lambda module: module):
    """Return what each node of some packages imports: ``{node: {node, ...}}``."""
    own = [module for module in MODULES if module.split(".")[0] in packages]
    found = {node_of(module): set() for module in own}
    for module in own:
        for imported, _ in imports(MODULES[module], FILES):
            if imported in own and node_of(imported) != node_of(module):
                found[node_of(module)].add(node_of(imported))
    return found


def circles(left):
    """Return the part of a graph whose nodes import each other."""
    while True:  # take away what imports nothing that is left, and what nothing left imports
        imported = set().union(*left.values())
        kept = {m: i & left.keys() for m, i in left.items() if i & left.keys() and m in imported}
        if kept == left:
            return left
        left = kept


def test_no_circles_of_files():
    assert circles(graph(FOLDERS)) == {}


@pytest.mark.parametrize("package", FOLDERS)
def test_no_circles_of_folders(package):
    assert circles(graph([package], folder_of)) == {}


def test_a_circle_would_be_found():
    ring = {"a": {"b"}, "b": {"c"}, "c": {"a"}}
    assert circles({"first": {"a"}, **ring, "last": set()}) == ring
    assert circles({"a": {"b"}, "b": set()}) == {}


def test_imports_stand_at_the_top_except_those_that_are_slow():
    offenders = [
        f"{module} imports {imported}"
        for module, path in MODULES.items()
        for imported, in_function in imports(path, FILES)
        if in_function and module.startswith(("simgpu", "d2lmini"))
        if not {imported, imported.split(".")[0]} & SLOW_TO_IMPORT
    ]
    assert offenders == []


PUBLIC = ["simgpu", "simgpu.hardware", "simgpu.network", "simgpu.timeline", "simgpu.run"]
PUBLIC += [
    "simgpu.units",
    "simgpu.rates_and_sizes",
    "simgpu.naming",
    "simgpu.plan",
    "simgpu.compare",
]
OUTSIDE = [path for name, path in MODULES.items() if name.startswith(("d2lmini", "chapters"))]
OUTSIDE += sorted((ROOT / "chapters").glob("*.ipynb"))


def deep_imports(path):
    """Yield what a file imports of simgpu that is not public."""
    for node in ast.walk(ast.parse(source(path))):
        if isinstance(node, ast.Import):
            names = {alias.name for alias in node.names if alias.name.startswith("simgpu.")}
            yield from names - set(PUBLIC)
        elif isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "simgpu":
            if node.module not in PUBLIC:
                yield node.module
                continue
            module = import_module(node.module)
            public = getattr(module, "__all__", [n for n in vars(module) if n[0] != "_"])
            names = {alias.name for alias in node.names} - set(public)
            yield from (f"{node.module}.{name}" for name in names)


@pytest.mark.slow
def test_simgpu_is_used_by_its_public_names():
    offenders = {path.name: deep for path in OUTSIDE if (deep := list(deep_imports(path)))}
    assert offenders == {}


def test_simgpu_does_not_know_the_book():
    files = [path for name, path in MODULES.items() if name.startswith("simgpu")]
    assert [path for path in files if "d2lmini" in path.read_text(encoding="utf-8").lower()] == []


def test_every_folder_of_the_packages_says_what_it_is():
    folders = {
        path.parent for name in ("simgpu", "d2lmini") for path in (ROOT / name).rglob("*.py")
    }
    for folder in folders:
        text = (folder / "__init__.py").read_text(encoding="utf-8")
        assert ast.get_docstring(ast.parse(text)), folder


def test_a_folder_has_few_modules():
    tracked = [ROOT / name for name in (*FOLDERS, "tests", ".ci")]
    count = Counter(path.parent for folder in tracked for path in folder.rglob("*.py"))
    wide = {folder.relative_to(ROOT).as_posix() for folder, n in count.items() if n > MOST_MODULES}
    assert not wide, "split it by subject"
    modules = {path.name for path in (ROOT / "d2lmini").glob("*.py")} - {"__init__.py"}
    assert len(modules) <= 10, "a small helper of the book; what teaches nothing goes to pages/"


@pytest.mark.slow
def test_tests_of_simgpu_need_torch_numpy_and_pytest_alone():
    folders = [TESTS / "simgpu", TESTS / "support" / "suite"]
    left = [TESTS / "conftest.py", *(path for folder in folders for path in folder.rglob("*.py"))]
    done = set()
    while left:
        path = left.pop()
        done.add(path)
        for imported, in_function in imports(path, FILES):
            if in_function and path.name in ("conftest.py", "scheduler.py"):
                continue  # of a fixture or hook that these tests do not use
            name = imported.split(".")[0]
            beside = (path.parent / f"{name}.py").exists()
            assert name in PLAIN or beside, f"{path} imports {imported}"
            if imported in SUPPORT and SUPPORT[imported] not in done:
                left.append(SUPPORT[imported])
    assert TESTS / "support" / "samples" / "op_samples.py" in done


@pytest.mark.process
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
