"""A mirror of the small data set on this machine, well-behaved or not."""

import gzip
import http.server
import threading

import tiny_idx


class Mirror:
    """A server on 127.0.0.1 that gives the small data set; `answers` changes single files.

    An answer is the bytes to send, a status to refuse with, or a function of the request's handler.
    """

    def __init__(self):
        self.answers = {f"{n}.gz": gzip.compress(c) for n, c in tiny_idx.CONTENTS.items()}
        self.requests = []
        self.released = threading.Event()  # set at the end: nothing may wait for ever
        mirror = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                name = self.path.rpartition("/")[2]
                mirror.requests.append(name)
                answer = mirror.answers[name]
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
