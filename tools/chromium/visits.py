"""Visits to many pages: what each says on the console, what it asks for, what a check answers."""

import json
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

from tools.chromium.browser import Tab, wait_for

SPOKE = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
ASKED = "Network.requestWillBeSent"
LOADED = "Page.loadEventFired"
SETTLES = 100  # milliseconds: scripts that run after a page was loaded


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder and says nothing."""

    def log_message(self, *args):
        """Say nothing."""


@contextmanager
def served(folder):
    """Serve a folder on loopback, at a port that is free; yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


class Visitor(Tab):
    """A page that remembers what happened on it."""

    def __init__(self, address):
        super().__init__(address)
        self.events = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def heard(self, message):
        """Keep an event."""
        if "method" in message:
            self.events.append(message)

    def visit(self, address):
        """Open a page, wait until it has settled, forget what was before."""
        self.events.clear()
        self.open(address)
        while not any(event["method"] == LOADED for event in self.events):
            self.heard(json.loads(self.socket.recv()))
        self.wait(f"new Promise(done => setTimeout(done, {SETTLES}, true))", awaitPromise=True)

    def said(self):
        """Return the console's messages and the exceptions since the visit began."""
        return [json.dumps(e["params"])[:400] for e in self.events if e["method"] in SPOKE]

    def requests(self):
        """Return the addresses that were asked for since the visit began."""
        asked = [e["params"]["request"]["url"] for e in self.events if e["method"] == ASKED]
        return [a for a in asked if not a.startswith(("data:", "blob:", "about:"))]


def new_visitor(tab):
    """Open another page in the browser of a page."""
    host = tab.socket.sock.getpeername()
    target = tab.call("Target.createTarget", url="about:blank")["targetId"]

    def address():
        with urllib.request.urlopen(f"http://{host[0]}:{host[1]}/json") as answer:
            return next(t["webSocketDebuggerUrl"] for t in json.load(answer) if t["id"] == target)

    return Visitor(wait_for(address, 60, "page"))


def visit_all(tab, names, look, tabs=3):
    """Call ``look(visitor, name)`` for every name, in several pages at once; return the answers."""
    visitors = [new_visitor(tab) for _ in range(tabs)]

    def work(name):
        visitor = visitors.pop()
        try:
            return look(visitor, name)
        finally:
            visitors.append(visitor)

    with ThreadPoolExecutor(tabs) as pool:
        return dict(zip(names, pool.map(work, names), strict=True))
