"""Open and validate files in Chrome's trace format."""

import gzip
import json
import re
import reprlib
import zlib
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 2**31  # of decompressed JSON; as Python objects it takes ten times as much
LARGEST = 1e18  # microseconds: 30,000 years
_INTEGER = re.compile(r"(?:stream )?(0x[0-9a-fA-F]{1,16}|-?[0-9]{1,20})")


@dataclass
class Trace:
    """One file: its name in messages, its top-level fields except events, its complete events."""

    name: str
    fields: dict
    events: list

    def invalid_field(self, event, field, value):
        """Return the error for a missing or invalid field of an event."""
        return ValueError(
            f"{self.name}: the field {field!r} of an event is missing or invalid: it is "
            f"{reprlib.repr(value)} in {reprlib.repr(event.get('name'))} of the category "
            f"{reprlib.repr(event.get('cat'))}; export the trace again, or drop that event"
        )

    def number(self, event, field):
        """Return a field of an event that must be a finite number."""
        value = event.get(field)
        if type(value) not in (int, float) or not -LARGEST < value < LARGEST:
            raise self.invalid_field(event, field, value)
        return value

    def text(self, event, field, value):
        """Return `value`, a field of an event that must be a text."""
        if not isinstance(value, str):
            raise self.invalid_field(event, field, value)
        return clean(value)

    def integer(self, event, field, value):
        """Return `value`, a device or stream number: an integer, or a text of one."""
        if isinstance(value, str) and (found := _INTEGER.fullmatch(value)):
            value = int(found[1], 0 if "x" in found[1] else 10)
        if type(value) is not int or abs(value) >= 2**64:
            raise self.invalid_field(event, field, value)
        return value

    def args(self, event):
        """Return the arguments of an event; an empty dict if there are none."""
        args = event.get("args")
        if args is not None and not isinstance(args, dict):
            raise self.invalid_field(event, "args", args)
        return args or {}


def clean(text):
    """Replace lone surrogates, which JSON can contain and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


def load(path, name=None):
    """Read one file, compressed by gzip or not.

    Parameters
    ----------
    path : str or path-like
        The file.
    name : str, optional
        Name of the file in messages; default: its path.

    Raises
    ------
    ValueError
        If the file is not JSON, or not a trace, or too large.
    """
    name = str(path) if name is None else name
    try:
        data = json.loads(_decompressed(Path(path), name))
    except RecursionError:
        raise ValueError(f"{name} is not a JSON trace: its values are nested too deeply") from None
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        if isinstance(error, _TooLargeError):
            raise
        raise ValueError(
            f"{name} is not a JSON trace ({error}); give a file written by Timeline.to_chrome or "
            "by torch.profiler's export_chrome_trace"
        ) from error
    fields = data if isinstance(data, dict) else {"traceEvents": data}
    events = fields.pop("traceEvents", None)
    if not isinstance(events, list):
        raise ValueError(f"{name} has no list 'traceEvents'; is it a Chrome trace?")
    return Trace(name, fields, [e for e in events if isinstance(e, dict) and e.get("ph") == "X"])


class _TooLargeError(ValueError):
    """The file is too large to parse."""


def _decompressed(path, name):
    with path.open("rb") as file:
        compressed = file.peek(2)[:2] == b"\x1f\x8b"
        data = (gzip.GzipFile(fileobj=file) if compressed else file).read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise _TooLargeError(f"{name} holds more than 2 GiB of JSON; record fewer steps")
    return data
