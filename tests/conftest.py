"""Rules for the whole test run."""

import os
import signal

import pytest

ALLOWED_SKIPS = (
    "needs a GPU",
    "needs two GPUs",
    "needs the CUDA build",
    "D2LMINI_DATA is not set",
)
NO_BROWSER = "no browser: install Chromium or Chrome (on Debian: apt-get install chromium)"


# Whoever starts the tests in the background has them ignore Ctrl-C, and so would all that they
# start; some tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Start the longest notebook first, so that parallel workers end together."""
    items.sort(key=lambda item: "multiple-gpus.ipynb" not in item.nodeid)


def pytest_sessionfinish(session):
    """Under CI, a test that was skipped although CI could run it fails the run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not os.environ.get("CI") or reporter is None or hasattr(session.config, "workerinput"):
        return
    for report in reporter.stats.get("skipped", []):
        reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr
        if not any(allowed in str(reason) for allowed in ALLOWED_SKIPS):
            reporter.write_line(f"CI must run {report.nodeid}: {reason}", red=True)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


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
