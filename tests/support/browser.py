"""The browser that tests drive is the one of the tools."""

from tools.chromium.browser import NoAnswerError, Tab, browser, find_browser, wait_for

__all__ = ["NoAnswerError", "Tab", "browser", "find_browser", "wait_for"]
