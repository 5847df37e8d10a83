"""A notebook that has passed is skipped until something that its outputs depend on changes."""

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from support.paths import CHAPTERS, ROOT, TESTS
from support.suite.imports import imports, modules_in, reached
from support.suite.proved import REASON, STARTS, Records, digest_of, pytest_configure

FILES = {
    "tests/sanitise.cfg": "",
    "chapters/matplotlibrc": "font.size: 9",
    "chapters/scripts/job.py": "import d2lmini.of_jobs",
    "d2lmini/__init__.py": "",
    "d2lmini/number.py": "from simgpu.numbers import ONE",
    "d2lmini/of_jobs.py": "",
    "d2lmini/unused.py": "",
    "d2lmini/start.py": f"import {STARTS}",
    "d2lmini/data/book.txt": "Call me",
    "simgpu/__init__.py": "",
    "simgpu/__main__.py": "def main():\n    import simgpu.command",
    "simgpu/command.py": "",
    "simgpu/numbers/__init__.py": "ONE = 1",
}


def stream(text):
    return [new_output("stream", name="stdout", text=text)]


def write(path, *cells):
    """Write a notebook of cells of code, each with what it has printed."""
    cells = [
        new_code_cell(source, outputs=stream(text), execution_count=i)
        for i, (source, text) in enumerate(cells, 1)
    ]
    nbformat.write(new_notebook(cells=cells), path)


@pytest.fixture
def repository(tmp_path):
    """Write a small repository with a notebook; return its folder."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    one, two = ("from d2lmini.number import ONE\nprint(ONE)", "1\n"), ("print(2)", "2\n")
    write(tmp_path / "chapters" / "sums.ipynb", one, two)
    return tmp_path


def digest(repository):
    notebook = repository / "chapters" / "sums.ipynb"
    return digest_of(notebook, repository, [repository / "tests" / "sanitise.cfg"])


def change(path):
    path.write_text(path.read_text() + "\n# changed\n")


REACHED = [
    *("d2lmini/number.py", "simgpu/numbers/__init__.py", "simgpu/__init__.py"),
    *("d2lmini/data/book.txt", "chapters/matplotlibrc", "tests/sanitise.cfg"),
]
BY_PROCESSES = ["chapters/scripts/job.py", "d2lmini/of_jobs.py", "simgpu/command.py"]


@pytest.mark.parametrize("name", REACHED)
def test_what_a_notebook_reaches_is_in_its_digest(repository, name):
    before = digest(repository)
    assert digest(repository) == before
    change(repository / name)
    assert digest(repository) != before


@pytest.mark.parametrize("name", [*BY_PROCESSES, "d2lmini/unused.py"])
def test_what_it_does_not_reach_is_not(repository, name):
    before = digest(repository)
    change(repository / name)
    assert digest(repository) == before


@pytest.mark.parametrize("name", BY_PROCESSES)
def test_one_that_starts_processes_reaches_scripts_and_commands(repository, name):
    (repository / "d2lmini" / "number.py").write_text("import d2lmini.start")
    before = digest(repository)
    change(repository / name)
    assert digest(repository) != before


@pytest.mark.parametrize("cell", [("print(3)", "2\n"), ("print(2)", "3\n")])
def test_cells_and_outputs_are_in_it(repository, cell):
    before = digest(repository)
    write(repository / "chapters" / "sums.ipynb", ("print(1)", "1\n"), cell)
    assert digest(repository) != before


def test_settings_and_packages_are_in_it(repository, monkeypatch):
    before = digest(repository)
    monkeypatch.setenv("D2LMINI_GPUS", "auto")
    auto = digest(repository)
    (repository / "torch-9.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(repository)
    assert len({before, auto, digest(repository)}) == 3


class Report:
    """What pytest says of a cell."""

    def __init__(self, cell, outcome="passed", when="call"):
        self.nodeid, self.outcome, self.when = f"chapters/sums.ipynb::Cell {cell}", outcome, when
        self.failed = outcome == "failed"


@pytest.mark.parametrize(
    ("reports", "recorded"),
    [
        ([Report(0), Report(1)], True),
        ([Report(1), Report(0, when="setup"), Report(0, when="teardown")], False),
        ([Report(0), Report(1, "skipped")], False),
        ([Report(0), Report(1, "failed")], False),
        ([Report(0), Report(1), Report(1, "failed", "teardown")], False),
    ],
    ids=["all", "a part", "one skipped", "one failed", "failed at the end"],
)
def test_it_is_recorded_when_all_its_cells_have_passed(tmp_path, reports, recorded):
    records = Records(tmp_path)
    notebook = "chapters/sums.ipynb"
    records.digests[notebook] = "digest"
    records.left[notebook] = {f"{notebook}::Cell {i}" for i in range(2)}
    for report in reports:
        records.pytest_runtest_logreport(report)
    assert records.record(notebook).exists() == recorded


class File:
    """What pytest has collected of the notebook."""

    nodeid = "chapters/sums.ipynb"

    def __init__(self, repository):
        self.path, self.markers = repository / self.nodeid, []
        self.nb = nbformat.read(self.path, as_version=4)
        self.add_marker = self.markers.append


def collect(repository, **options):
    """Return the records of a run that has collected one cell, and the notebook."""
    records, file = Records(repository, **options), File(repository)
    records.pytest_collection_modifyitems([SimpleNamespace(parent=file, path=file.path)])
    return records, file


def test_one_cell_alone_proves_nothing_and_what_is_proved_is_skipped_on_request(repository):
    records, file = collect(repository, skip=True)
    records.pytest_runtest_logreport(Report(0))
    assert not records.record(file.nodeid).exists()
    records.pytest_runtest_logreport(Report(1))
    assert records.record(file.nodeid).read_text() == digest_of(file.path, repository)
    for skip in (True, False):
        _, file = collect(repository, skip=skip)
        assert bool(file.markers) == skip


def config_of(**options):
    found = {"nbval": True, "nbval_lax": False, "nbval_sanitize_with": None, "skip_proved": False}
    manager = pytest.PytestPluginManager()
    option = SimpleNamespace(**{**found, **options})
    return SimpleNamespace(option=option, rootpath=ROOT, pluginmanager=manager)


@pytest.mark.parametrize(
    ("options", "kept"), [({}, True), ({"nbval_lax": True}, False), ({"nbval": False}, False)]
)
def test_only_runs_that_compare_all_outputs_keep_records(options, kept):
    config = config_of(**options)
    pytest_configure(config)
    assert any(isinstance(one, Records) for one in config.pluginmanager.get_plugins()) == kept


def run(repository, *options):
    """Run the notebook as `make test` does; return how many cells had which outcome, and why."""
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "support.suite.proved"]
    command += ["-p", "no:cacheprovider", "--rootdir", ".", "--nbval", *options, "chapters"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (repository, TESTS)))}
    done = subprocess.run(command, cwd=repository, env=env, capture_output=True, text=True)
    counts = re.findall(r"(\d+) (passed|failed|skipped)", done.stdout.splitlines()[-1])
    return {outcome: int(count) for count, outcome in counts}, done.stdout


@pytest.mark.long
@pytest.mark.process
@pytest.mark.slow
def test_it_is_skipped_until_something_changes(repository):
    in_two = ("-n", "2", "--dist", "loadfile", "--skip-proved")
    assert run(repository, *in_two)[0] == {"passed": 2}
    counts, text = run(repository, *in_two)
    assert counts == {"skipped": 2}
    assert REASON in text
    (repository / "simgpu" / "numbers" / "__init__.py").write_text("ONE = 11")
    assert run(repository, "--skip-proved")[0] == {"passed": 1, "failed": 1}
    assert list((repository / "_build" / "proved").iterdir()) == []


@pytest.mark.slow
def test_chapters_start_processes_by_one_module():
    """Other ways would leave what they start out of the digest."""
    known = modules_in(ROOT, ("simgpu", "d2lmini"))
    others = {"multiprocessing", "torch.multiprocessing", "pty", "runpy"}
    for chapter in CHAPTERS.glob("*.ipynb"):
        own = {chapter, *(known[n] for n in reached([chapter], known) if n.startswith("d2lmini."))}
        for path in own:
            assert not others & {name for name, _ in imports(path, known)}, path
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"os\.(system|popen|exec|spawn|fork)|import_module\(", text), path
