"""The record of what ran: compact while a program runs, a list of spans when asked for."""

import struct
from typing import NamedTuple

from simgpu.clock.span import Span

_FIELDS = "hBIIddqq"  # device, engine, stream, name, start, duration, flops, bytes
_ROW, _TWO_ROWS = struct.Struct(f"<{_FIELDS}"), struct.Struct(f"<{2 * _FIELDS}")
ENGINES = ("compute", "h2d", "d2h", "p2p", "launch", "cpu", "sync", "comm")
COMPUTE, H2D, D2H, P2P, LAUNCH, CPU_ENGINE, SYNC, COMM = range(len(ENGINES))
HOST = -1
OF_RANKS = 1000  # rows from here on, and from -OF_RANKS on downwards, have names of their own


class Communication(NamedTuple):
    """What the trace knows of a message or a collective, besides time and bytes."""

    name: str
    collective: str
    group: str
    ranks: int
    lane: str


class Trace:
    """A growing list of spans at about 50 bytes each (a training run makes millions)."""

    def __init__(self):
        self._rows = bytearray()
        self._names: dict[str | Communication, int] = {}
        self._rows_named: dict[int, str] = {}

    def add(self, device, engine, stream, name, start, duration, flops=0, num_bytes=0):
        """Append one span.

        `device` is an index, `HOST` or what `name_row` has named, `engine` an index into `ENGINES`,
        `name` a `Communication` if it is one.
        """
        names = self._names
        number = names.get(name)
        if number is None:
            number = names[name] = len(names)
        self._rows += _ROW.pack(device, engine, stream, number, start, duration, flops, num_bytes)

    def add_kernel(
        self, host, device, stream, name, issued, overhead, start, duration, flops, num_bytes
    ):
        """Append the span of a launch in row `host`, and that of its kernel in row `device`.

        As two calls of `add` would, in less time: kernels are most of what a trace holds.
        """
        names = self._names
        number = names.get(name)
        if number is None:
            number = names[name] = len(names)
        self._rows += _TWO_ROWS.pack(
            host, LAUNCH, stream, number, issued, overhead, 0, 0,
            device, COMPUTE, stream, number, start, duration, flops, num_bytes,
        )  # fmt: skip

    def name_row(self, number, name):
        """Let spans whose device is `number` have a device of this name."""
        self._rows_named[number] = name

    def clear(self):
        """Forget everything."""
        self._rows.clear()

    def __len__(self):
        return len(self._rows) // _ROW.size

    def spans(self) -> list[Span]:
        """All spans in the order in which the host issued them."""
        names = list(self._names)
        return [
            Span(
                self._rows_named.get(device) or ("host" if device == HOST else f"sim:{device}"),
                ENGINES[engine],
                stream,
                *_described(names[name], start, duration, flops, num_bytes),
            )
            for device, engine, stream, name, start, duration, flops, num_bytes in (
                _ROW.iter_unpack(bytes(self._rows))
            )
        ]


def _described(name, start, duration, flops, num_bytes):
    """Return the fields of a span from its name on."""
    if isinstance(name, str):
        return name, start, duration, flops, num_bytes
    return (
        name.name, start, duration, flops, num_bytes, name.lane, name.collective, name.group,
        name.ranks,
    )  # fmt: skip
