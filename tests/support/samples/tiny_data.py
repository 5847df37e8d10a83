"""A data set of 20 + 10 images in IDX files, and a mirror of it on this machine."""

import gzip
import hashlib
import http.server
import struct
import threading
from pathlib import Path

import numpy as np

from d2lmini.data import cache, fashion, places
from d2lmini.data.digits import make_digits
from d2lmini.data.idx import IdxFile


def _idx(values: np.ndarray) -> bytes:
    """Return the content of an IDX file of unsigned bytes."""
    header = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    return header + values.astype(np.uint8).tobytes()


_rng = np.random.default_rng(0)
_ARRAYS = {
    "train-images-idx3-ubyte": _rng.integers(0, 256, (20, 28, 28)),
    "train-labels-idx1-ubyte": np.arange(20) % 10,
    "t10k-images-idx3-ubyte": _rng.integers(0, 256, (10, 28, 28)),
    "t10k-labels-idx1-ubyte": np.arange(10),
}
IMAGES, LABELS, _, LAST = _ARRAYS
CONTENTS = {name: _idx(array) for name, array in _ARRAYS.items()}
FILES = tuple(
    IdxFile(name, array.shape, hashlib.sha256(CONTENTS[name]).hexdigest())
    for name, array in _ARRAYS.items()
)


def write(folder: Path, compressed: bool = False, **changes: bytes) -> Path:
    """Write the files into `folder` and return it; `changes` replaces contents by file name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {**CONTENTS, **changes}.items():
        if compressed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)
    return folder


def use(monkeypatch, home: Path, mirror: str = "http://127.0.0.1:1/") -> Path:
    """Let `d2lmini` expect these files, here or nowhere, and return the cache folder in `home`."""
    monkeypatch.setattr(fashion, "FILES", FILES)
    monkeypatch.setattr(fashion, "MIRRORS", (mirror,))
    monkeypatch.setattr(places, "make_digits", lambda: make_digits(20, 10))
    monkeypatch.setattr(cache, "_failures", {})
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("D2LMINI_DATA", raising=False)
    return home / "d2lmini" / "fashion-mnist"


class Mirror:
    """A server on 127.0.0.1 that gives the files; `answers` changes single ones.

    An answer is the bytes to send, a status to refuse with, or a function of the request's handler.
    """

    def __init__(self):
        self.answers = {f"{name}.gz": gzip.compress(c) for name, c in CONTENTS.items()}
        self.requests = []
        self.released = threading.Event()  # set at the end: nothing may wait for ever
        mirror = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                mirror.requests.append(self.path)
                answer = mirror.answers[self.path.rpartition("/")[2]]
                if isinstance(answer, int):
                    self.send_error(answer)
                elif callable(answer):
                    answer(self)
                else:
                    send(self, answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/data/"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()


def send(handler, content, announced=None):
    """Answer with `content`, announcing its length or another one."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(announced or len(content)))
    handler.end_headers()
    handler.wfile.write(content)
    handler.wfile.flush()
