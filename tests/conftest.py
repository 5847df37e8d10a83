"""Rules for the whole test run."""

import os
import signal

import pytest
from support.browser import browser, find_browser

ALLOWED_SKIPS = (
    "needs a GPU",
    "needs two GPUs",
    "needs the CUDA build",
    "D2LMINI_DATA is not set",
    "chromium is not installed",
)


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


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    """Start a browser; return its page. CI has to have one."""
    if not find_browser():
        assert not os.environ.get("CI"), "no browser: apt-get install chromium"
        pytest.skip("no browser: chromium is not installed")
    with browser(tmp_path_factory.mktemp("profile")) as tab:
        yield tab
