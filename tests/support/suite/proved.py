"""A notebook that has passed is proved until something changes that its outputs depend on.

A plugin of pytest. Whenever all cells of a notebook pass under strict nbval, a file in
``_build/proved`` gets a digest of the notebook, of the repository's files that it reaches, and of
what they run on. With ``--skip-proved``, notebooks whose digest is still the same are skipped.
"""

import hashlib
import os
import platform
import sys
from pathlib import Path

import pytest
from support.suite.imports import modules_in, reached

REASON = "unchanged since all of it passed; make test FULL=1 runs it"
STARTS = "subprocess"  # who imports it may start any script and command
SETTINGS = ("D2LMINI_", "OMP_", "CUDA_")


def pytest_addoption(parser):
    """Let a run skip what is proved."""
    parser.addoption(
        "--skip-proved", action="store_true", help="skip notebooks unchanged since they passed"
    )


def pytest_configure(config):
    """Keep records of a run that compares all outputs."""
    options = config.option
    if getattr(options, "nbval", False) and not options.nbval_lax:
        sanitiser = [Path(options.nbval_sanitize_with)] if options.nbval_sanitize_with else []
        config.pluginmanager.register(Records(config.rootpath, sanitiser, options.skip_proved))


class Records:
    """The records of the notebooks of one run, which may have several processes.

    Parameters
    ----------
    root : pathlib.Path
        The repository.
    files : list of pathlib.Path
        What the outputs of every notebook depend on, apart from the repository's packages.
    skip : bool
        Skip what is proved.
    """

    def __init__(self, root, files=(), skip=False):
        self.root, self.files, self.skip = root, files, skip
        self.digests = {}  # of the notebooks that run
        self.left = {}  # their cells that have not passed

    def pytest_collection_modifyitems(self, items):
        """Find what is proved; the digests are those of the files that the run begins with."""
        for file in {item.parent for item in items if item.path.suffix == ".ipynb"}:
            digest = digest_of(file.path, self.root, self.files)
            record = self.record(file.nodeid)
            if self.skip and record.exists() and record.read_text() == digest:
                file.add_marker(pytest.mark.skip(reason=REASON))
                continue
            count = sum(cell.cell_type == "code" for cell in file.nb.cells)
            self.digests[file.nodeid] = digest
            self.left[file.nodeid] = {f"{file.nodeid}::Cell {i}" for i in range(count)}

    def record(self, notebook):
        """Return the path of a notebook's record."""
        return self.root / "_build" / "proved" / Path(notebook).stem

    def pytest_runtest_logreport(self, report):
        """Record a notebook when its last cell has passed; forget it when one fails."""
        notebook = report.nodeid.partition("::")[0]
        if notebook not in self.left:
            return
        record = self.record(notebook)
        if report.failed:
            record.unlink(missing_ok=True)
        elif report.when == "call" and report.outcome == "passed":
            self.left[notebook].discard(report.nodeid)
            if not self.left[notebook]:
                record.parent.mkdir(parents=True, exist_ok=True)
                record.write_text(self.digests[notebook])


def digest_of(notebook, root, files=()):
    """Return the digest of all that a notebook's outputs depend on."""
    depends = {notebook, *files, *data_files(root), *modules_behind(notebook, root)}
    contents = sorted((str(p), hashlib.sha256(p.read_bytes()).hexdigest()) for p in depends)
    return hashlib.sha256(repr((contents, environment())).encode()).hexdigest()


def modules_behind(notebook, root):
    """Return the files of the modules that run when a notebook does."""
    known = modules_in(root, ("simgpu", "d2lmini", "chapters"))
    names = reached([notebook], known)
    if STARTS in names:
        started = {name for name in known if name.startswith("chapters.") or "__main__" in name}
        names |= started | reached([known[name] for name in started], known)
    return {known[name] for name in names if name in known}


def data_files(root):
    """Return what modules and notebooks read: files beside them that are neither."""
    folders = [root / "simgpu", root / "d2lmini", root / "chapters" / "scripts"]
    found = [*(root / "chapters").glob("matplotlibrc"), *(p for f in folders for p in f.rglob("*"))]
    return [path for path in found if path.is_file() and path.suffix not in (".py", ".pyc", ".md")]


def environment():
    """Return what else outputs depend on: the machine, versions of all packages, settings."""
    packages = {path.name for entry in sys.path for path in Path(entry).glob("*.dist-info")}
    settings = {name: os.environ[name] for name in os.environ if name.startswith(SETTINGS)}
    return sys.version, platform.machine(), sorted(packages), sorted(settings.items())
