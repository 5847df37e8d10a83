"""Serve the built book with cells that run; see `tools.live`."""

import argparse
import errno
import os
import socket
import sys
from pathlib import Path

from tools import build_book
from tools.readers.book import ROOT

PORT = 8890
TAKEN = """live: port {port} is taken by another program, perhaps by another `make live`.
Stop that one, or name another port: make live ARGS="--port {other}"
(--port 0 takes any port that is free)"""


def port(text):
    """Return a port's number."""
    number = int(text)
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 65535")
    return number


def is_taken(number):
    """Return whether another program listens at a port of loopback."""
    with socket.socket() as probe:
        if os.name != "nt":  # there it would mean something else
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", number))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return True
            raise
    return False


def prepared():
    """Build the book and the readers' notebooks; return the exit status."""
    from tools.readers.__main__ import main as build_notebooks

    print("live: building the book, some minutes for the first time", flush=True)
    return build_book.build() or build_notebooks([])


def main(arguments=None):
    """Command line: serves until Ctrl-C; returns the exit status."""
    parser = argparse.ArgumentParser(prog="make live", description=__doc__)
    parser.add_argument("--port", type=port, default=PORT, help=f"default: {PORT}; 0: any")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--no-build", action="store_true", help="serve what was built before")
    parser.add_argument("--root", type=Path, default=ROOT, help="the book's folder")
    options = parser.parse_args(arguments)
    if is_taken(options.port):
        print(TAKEN.format(port=options.port, other=options.port + 1), file=sys.stderr)
        return 1
    if not options.no_build and (status := prepared()):
        return status
    from tools.live.server import serve

    return serve(options.root.resolve(), options.port, not options.no_browser)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # while the book was being built
        sys.exit(130)
