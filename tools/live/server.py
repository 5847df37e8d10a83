"""A Jupyter server, on loopback alone, that hands out the book's pages as well."""

import json
import mimetypes
import secrets
import signal
import tempfile
from pathlib import Path

import nbformat
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.serverapp import ServerApp
from tornado import web
from traitlets.config import Config

from tools.classroom import exercises
from tools.live import needs

OWN = Path(__file__).parent
ASSETS = OWN.resolve().parents[1] / "assets"
PARTS = ("start", "kernel", "output", "kept", "cell", "batch", "page")  # in order of dependence
REFUSED = "This address needs the token that make live has printed.\n"
UNUSED_AFTER = 300  # seconds until a kernel ends whose page has gone without a word
SHORT = "/tmp"  # the path of a socket has at most 103 bytes, and a home's or TMPDIR's may be long
LARGEST = 2**24  # bytes of a request: a cell's source is far smaller


class BookHandler(JupyterHandler):
    """Hands out files to whoever has the token, and nothing to anybody else."""

    def initialize(self, folder):
        """Record the folder of the files."""
        self.folder = folder.resolve()

    async def get(self, name):
        """Answer a request."""
        if not self.current_user:
            self.set_status(403)
            self.set_header("Content-Type", "text/plain")
            self.finish(REFUSED)
        elif self.get_query_argument("token", None):  # a cookie has it from now on
            self.redirect(self.request.path)
        else:
            self.set_header("Cache-Control", "no-store")
            self.deliver(name)

    def deliver(self, name):
        """Send a file of the folder."""
        path = inside(self.folder, name or "index.html")
        if not path.is_file():
            raise web.HTTPError(404)
        self.set_header("Content-Type", mimetypes.guess_type(path.name)[0] or "text/plain")
        content = path.read_bytes()
        if path.suffix == ".html":
            content = with_script(content, self.settings["live_token"])
        self.finish(content)


class ScriptHandler(BookHandler):
    """Hands out the script of the pages: its parts, which share one scope."""

    def deliver(self, name):
        """Send all parts as one file."""
        parts = [(self.folder / f"{part}.js").read_text(encoding="utf-8") for part in PARTS]
        self.set_header("Content-Type", "text/javascript")
        self.finish(f'(() => {{\n"use strict";\n{"".join(parts)}}})();\n')


class CellsHandler(BookHandler):
    """Hands out the code cells of a page, those as well that the page does not show."""

    def deliver(self, name):
        """Send the cells of the notebook behind a page; none if there is no notebook."""
        path = inside(self.folder, f"{name}.ipynb")
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(cells_of(path) if path.is_file() else {"cells": [], "answers": {}}))


class PlanHandler(JupyterHandler):
    """Says which cells have to run before one: see `needs.plan`."""

    @web.authenticated
    def post(self):
        """Answer with the plan for the cells that the page has sent."""
        asked = self.get_json_body()
        made = needs.plan(
            asked["sources"],
            set(asked["ran"]),
            asked["wanted"],
            set(asked["optional"]),
            asked["needs_all"],
        )
        self.finish({"run": made.run, "again": made.again})


def inside(folder, name):
    """Return the path of a name in a folder; whatever is no name there is not found."""
    try:
        path = (folder / name).resolve()
        path.exists()  # too long a name
    except (OSError, ValueError):  # the latter of a null byte
        raise web.HTTPError(404) from None
    if not path.is_relative_to(folder):
        raise web.HTTPError(404)
    return path


def with_script(page, token):
    """Return a page with the script that makes its cells run."""
    tag = '<link rel="stylesheet" href="/live/live.css"/>'
    if b"/words.js" not in page:  # a page that has no script of the book's
        tag += '<script defer src="/live/words.js"></script>'
    tag += f'<script defer src="/live/live.js" data-token="{token}"></script></head>'
    return page.replace(b"</head>", tag.encode(), 1)


def cells_of(path):
    """Return source and tags of a notebook's code cells, and what stands in the boxes for answers.

    These name the checkers of an exercise, by its number.
    """
    notebook = nbformat.read(path, as_version=4)
    cells = [
        {"source": cell.source, "tags": cell.metadata.get("tags", [])}
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]
    answers = {n: found.hint for n, found in exercises(notebook).items() if found.calls}
    return {"cells": cells, "answers": answers}


class Live(ServerApp):
    """A Jupyter server that takes no settings of the user's and asks nothing when it ends."""

    name = "live"
    description = "The book with cells that run."

    def load_config_file(self, *args, **kwargs):
        """Ignore the user's settings: they may open a server to others."""

    def init_signal(self):
        """Have Ctrl-C and a closed terminal end it, kernels and all."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: self.stop(from_signal=True))


def settings(notebooks, port, token, opens_browser):
    """Return the settings of the server.

    Kernels listen at sockets in a folder of the user's alone: to their ports of loopback every user
    of the machine could listen.
    """
    server = {
        "ip": "127.0.0.1",
        "port": port,
        "port_retries": 0,
        "root_dir": str(notebooks),
        "default_url": "/book/index.html",
        "cookie_secret": secrets.token_bytes(32),  # no cookie outlives the server
        "open_browser": opens_browser,
        "terminals_enabled": False,
        "allow_root": True,  # loopback and a token are what protects it
        "log_level": "ERROR",
        "max_body_size": LARGEST,
        "max_buffer_size": LARGEST,
    }
    identity = {"token": token, "cookie_options": {"samesite": "Lax"}}
    kernels = {"cull_idle_timeout": UNUSED_AFTER, "cull_interval": 60}
    return Config(
        ServerApp=server,
        IdentityProvider=identity,
        MappingKernelManager=kernels,
        KernelManager={"transport": "ipc"},
    )


def serve(root, port, opens_browser):
    """Serve the built book of a folder until Ctrl-C; return the exit status."""
    with tempfile.TemporaryDirectory(prefix="live-", dir=SHORT) as runtime:
        app = build(root, port, opens_browser, runtime)
        app.start()
    print("live: ended")
    return 0


def build(root, port, opens_browser, runtime):
    """Return the server, and print where it is."""
    token = secrets.token_hex(24)
    notebooks, pages = root / "_build" / "notebooks", root / "_build" / "html"
    config = settings(notebooks, port, token, opens_browser)
    app = Live(runtime_dir=runtime, config=config)  # no setting: the folder of kernels' sockets
    app.initialize(argv=[], find_extensions=False)
    app.web_app.settings["live_token"] = token
    app.web_app.add_handlers(
        ".*",
        [
            (r"/book/(.*)", BookHandler, {"folder": pages}),
            (r"/live/cells/(.*)", CellsHandler, {"folder": root}),
            ("/live/plan", PlanHandler),
            (r"/live/(words\.js)", BookHandler, {"folder": ASSETS}),
            (r"/live/(live\.js)", ScriptHandler, {"folder": OWN / "scripts"}),
            (r"/live/(live\.css)", BookHandler, {"folder": OWN}),
        ],
    )
    print(f"live: kernels work in {notebooks}; what they write stays there")
    print("live: Ctrl-C ends everything; the book is at")
    print(f"http://127.0.0.1:{app.port}/book/index.html?token={token}", flush=True)
    return app
