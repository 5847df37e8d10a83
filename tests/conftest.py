"""Rules for the whole test run: what it may start, what it may not skip; fixtures for all tests.

``support/suite/`` has more: which tests run, and in which order.
"""

import os
import signal
import sys
import time
from collections import Counter

import pytest

pytest_plugins = [f"support.suite.{name}" for name in ("scheduler", "tiers", "proved")]
START = time.monotonic()
NO_TIME_LEFT = "no time left"
ALLOWED_SKIPS = (
    "needs a GPU",
    "needs two GPUs",
    "needs the CUDA build",
    "D2LMINI_DATA is not set",
    "make test-frameworks",
    "no node",
    NO_TIME_LEFT,
)
NO_BROWSER = "no browser: install Chromium or Chrome (on Debian: apt-get install chromium)"
MAY_START_PROCESSES = ("process", "browser", "exhaustive")
STARTS = {"os.fork", "os.posix_spawn", "os.system", "subprocess.Popen"}  # audit events
RUNNING = []  # the test that runs, if one does
COLLECTED = {}  # the modules of tests, by name
# Programs that tests start, and one for MXNet: importing them, as for their docstrings, would run
# them.
collect_ignore_glob = [
    "support/mxnet_values/record.py",
    "frameworks/scripts/*",
    "support/cuda_scripts/*",
    "support/programs/*/*",
    "simgpu/plan/scripts/*",
]


# Whoever starts the tests in the background has them ignore Ctrl-C, and so would all that they
# start; some tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    """Let a run end in time, with what it has."""
    parser.addoption("--minutes", type=float, help="skip the tests that would begin later")


def refuse_processes(event, arguments):
    """Refuse what a test without such a marker may not do; called for all that Python audits."""
    is_start = event in STARTS and RUNNING
    if is_start and not any(map(RUNNING[0].get_closest_marker, MAY_START_PROCESSES)):
        raise RuntimeError("a test that starts a process needs @pytest.mark.process")


sys.addaudithook(refuse_processes)


def pytest_collection_finish():
    """Note which modules of tests have been imported."""
    COLLECTED.update((n, m) for n, m in sys.modules.items() if n.startswith("test_"))


def needed(module):
    """Return the names of the modules of tests that one of them imports from, and its own."""
    found, left = set(), [module]
    while left:
        of_values = {getattr(value, "__module__", "") for value in vars(left.pop()).values()}
        new = (of_values & COLLECTED.keys()) - found
        found |= new
        left += map(COLLECTED.get, new)
    return found | {module.__name__}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Run a test as if its file had been collected alone, and note which one runs.

    Each run of ranks looks through all that the modules of its process hold, and some tests hold
    tables.
    """
    RUNNING[:] = [item]
    module = getattr(item, "module", None)
    for name in COLLECTED.keys() - (needed(module) if module else ()):
        sys.modules.pop(name, None)
    try:
        return (yield)
    finally:
        sys.modules.update(COLLECTED)
        RUNNING.clear()


def pytest_runtest_setup(item):
    """Skip what begins too late."""
    minutes = item.config.getoption("minutes")
    if minutes is not None and time.monotonic() - START > 60 * minutes:
        pytest.skip(NO_TIME_LEFT)


def skipped(reporter):
    """Yield (report, reason) for each test that was skipped."""
    for report in reporter.stats.get("skipped", []):
        reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr
        yield report, str(reason)


def pytest_sessionfinish(session):
    """Under CI, a test that was skipped although CI could run it fails the run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not os.environ.get("CI") or reporter is None or hasattr(session.config, "workerinput"):
        return
    for report, reason in skipped(reporter):
        if not any(allowed in reason for allowed in ALLOWED_SKIPS):
            reporter.write_line(f"CI must run {report.nodeid}: {reason}", red=True)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter):
    """Say which tests there was no time for."""
    late = [report.nodeid for report, reason in skipped(terminalreporter) if NO_TIME_LEFT in reason]
    for file, count in Counter(name.partition("::")[0] for name in late).items():
        terminalreporter.write_line(f"no time for {count} tests of {file}", yellow=True)


@pytest.fixture
def no_gpu_setting(monkeypatch):
    """Leave the choice of devices to the test."""
    monkeypatch.delenv("D2LMINI_GPUS", raising=False)


@pytest.fixture(scope="session")
def chromium():
    """Return the path of a browser. Without one, tests that need it are skipped, except in CI."""
    from support.browser import find_browser  # here: tests of simgpu need no such package

    found = find_browser()
    if not found and os.environ.get("CI"):
        pytest.fail(f"CI has to try the pages, and there is {NO_BROWSER}", pytrace=False)
    elif not found:
        pytest.skip(NO_BROWSER)
    return found


@pytest.fixture(scope="module")
def tab(chromium, tmp_path_factory):
    """Start a browser; return its page."""
    from support.browser import browser

    with browser(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Build the book into a folder of its own, once for all workers; return its pages."""
    from filelock import FileLock

    from tools import build_book

    place = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent  # that of the whole run
    target, pages = place / "book", place / "book" / "_build" / "html"
    with FileLock(place / "book.lock"):
        if not (target / "built").exists():
            assert build_book.build("--path-output", str(target)) == 0
            (target / "built").touch()
    return pages
