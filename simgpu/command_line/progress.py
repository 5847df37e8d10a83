"""How far a command is, in one line of a terminal; nothing where nobody looks."""

import sys
import threading
from time import monotonic

EVERY = 1.0  # real seconds


class Progress:
    """Shows how far a command is, how long it has run and how long the rest may take.

    The line is written anew every second inside a ``with`` block, and is gone behind it. Where
    stderr is no terminal, there is none.

    Parameters
    ----------
    what : str
        What is counted, such as ``"part"``.
    counts : callable
        ``counts()`` returns how many are done and how many there are; None in place of the second
        if that is not known.
    bound : str, default "about"
        What the time that is left is: ``"at most"`` if not all that there are have to be done.
    """

    def __init__(self, what, counts, bound="about"):
        self._what, self._counts, self._bound = what, counts, bound
        self._stream, self._ended, self._width = sys.stderr, threading.Event(), 0

    def __enter__(self):
        self._began = monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)
        if self._stream.isatty():
            self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._write("")

    def _run(self):
        while not self._ended.wait(EVERY):
            self._write(self.text(monotonic() - self._began))

    def text(self, seconds) -> str:
        """Return the line after so many seconds."""
        done, total = self._counts()
        of = "" if total is None else f" of {total}"
        left = ""
        if done and total:
            left = f", {self._bound} {clock(seconds * (total - done) / done)} left"
        return f"{self._what} {done}{of}, {clock(seconds)}{left}"

    def _write(self, text):
        """Write a text over the one before."""
        if not text and not self._width:
            return
        print(f"\r{text:<{self._width}}\r", end="", file=self._stream, flush=True)
        self._width = len(text)


def clock(seconds) -> str:
    """Return a time as on a clock.

    Examples
    --------
    >>> clock(75), clock(3725)
    ('1:15', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
