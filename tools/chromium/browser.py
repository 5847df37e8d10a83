"""A headless Chromium, driven over its debugging protocol: pages are opened and asked."""

import base64
import json
import shutil
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from itertools import count

import websocket

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
    "--remote-debugging-port=0", "--remote-allow-origins=*", "--window-size=1280,1600",
]  # fmt: skip


def find_browser():
    """Return the path of a browser, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def wait_for(question, seconds, what):
    """Ask until the answer is true; return it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if answer := question():
                return answer
        except OSError:
            pass
        time.sleep(0.3)
    raise TimeoutError(f"{what}: not after {seconds} s")


class NoAnswerError(OSError):
    """The page is not there yet, or not any more."""


class Tab:
    """One page of a browser."""

    def __init__(self, address):
        self.socket = websocket.create_connection(address, timeout=120, suppress_origin=True)
        self.numbers = count(1)

    def call(self, method, **parameters):
        """Call a method of the debugging protocol; return its result."""
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self.socket.recv())
            if "method" in answer:
                self.heard(answer)
            if answer.get("id") == number:
                if "error" in answer:
                    raise NoAnswerError(answer["error"])
                return answer["result"]

    def heard(self, message):
        """Ignore what the page says of its own accord."""

    def open(self, address):
        """Go to a page."""
        self.call("Page.navigate", url=address)

    def ask(self, expression, **options):
        """Return the value of an expression in JavaScript."""
        options = {"expression": expression, "returnByValue": True, **options}
        result = self.call("Runtime.evaluate", **options)
        if "exceptionDetails" in result:
            raise NoAnswerError(result)
        return result["result"].get("value")

    def wait(self, expression, seconds=90, **options):
        """Wait until an expression is true; return its value."""
        return wait_for(lambda: self.ask(expression, **options), seconds, expression)

    def picture(self, path):
        """Write what is to be seen as PNG."""
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))


@contextmanager
def browser(folder, *options):
    """Start a browser with a profile of its own; yield its page."""
    command = [find_browser(), *OPTIONS, *options, f"--user-data-dir={folder}", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port = wait_for((folder / "DevToolsActivePort").read_text, 60, "browser").split()[0]

        def tab():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
                return [t for t in json.load(answer) if t["type"] == "page"]

        yield Tab(wait_for(tab, 60, "page")[0]["webSocketDebuggerUrl"])
    finally:
        process.terminate()
        process.wait(30)
