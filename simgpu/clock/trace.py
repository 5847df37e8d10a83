"""The record of what ran: compact while a program runs, a list of spans on request."""

import struct
from typing import NamedTuple

from simgpu.clock.span import Span

_FIELDS = "iBIIddqq"  # device, engine, stream, name, start, duration, flops, bytes
_ROW, _TWO_ROWS = struct.Struct(f"<{_FIELDS}"), struct.Struct(f"<{2 * _FIELDS}")
ENGINES = ("compute", "h2d", "d2h", "p2p", "launch", "cpu", "sync", "comm", "loader")
COMPUTE, H2D, D2H, P2P, LAUNCH, CPU_ENGINE, SYNC, COMM, LOADER = range(len(ENGINES))
WAIT_FOR_BATCH = "wait for a batch"  # a span of the host, for which the data loader is too slow
HOST = -1
OF_RANKS = 1000  # rows of rank i: OF_RANKS + i for its device, -OF_RANKS - i for its host


class Communication(NamedTuple):
    """What the trace records of a message or a collective besides times and bytes."""

    name: str
    collective: str
    group: str
    ranks: int
    lane: str


class Trace:
    """A growing list of spans at about 50 bytes each (a training run makes millions).

    Attributes
    ----------
    joined : dict or None
        Row of a collective -> when the rank's part could have started, while a profiler records.
    """

    def __init__(self):
        self.joined: dict[int, float] | None = None
        self._rows = bytearray()
        self._names: dict[str | Communication, int] = {}
        self._rows_named: dict[int, str] = {}

    def add(self, device, engine, stream, name, start, duration, flops=0, num_bytes=0):
        """Append one span.

        `device` is an index, `HOST` or a row named by `name_row`, `engine` an index into `ENGINES`,
        `name` a string or a `Communication`.
        """
        names = self._names
        number = names.get(name)
        if number is None:
            number = names[name] = len(names)
        self._rows += _ROW.pack(device, engine, stream, number, start, duration, flops, num_bytes)

    def add_kernel(
        self, host, device, stream, name, issued, overhead, start, duration, flops, num_bytes
    ):
        """Append the span of a launch in row `host` and that of its kernel in row `device`.

        Faster than two calls of `add`; most spans of a trace are launches and kernels.
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
        """Set the device name of the spans in row `number`."""
        self._rows_named[number] = name

    def clear(self):
        """Remove all spans."""
        self._rows.clear()

    def __len__(self):
        return len(self._rows) // _ROW.size

    def spans(self) -> list[Span]:
        """Return all spans in the order in which the host issued them."""
        names = list(self._names)
        return [self._span(names, *row) for row in _ROW.iter_unpack(bytes(self._rows))]

    def rows(self, devices, last) -> list[tuple[int, Span]]:
        """Return the spans in rows of some devices and hosts, and their numbers before `last`."""
        names = list(self._names)
        rows = _ROW.iter_unpack(bytes(self._rows[: last * _ROW.size]))
        return [(i, self._span(names, *row)) for i, row in enumerate(rows) if row[0] in devices]

    def _span(self, names, device, engine, stream, name, *amounts):
        return Span(
            self._rows_named.get(device) or ("host" if device == HOST else f"sim:{device}"),
            ENGINES[engine], stream, *_from_name(names[name], *amounts),
        )  # fmt: skip


def _from_name(name, start, duration, flops, num_bytes):
    """Return the fields of a span from `name` on."""
    if isinstance(name, str):
        return name, start, duration, flops, num_bytes
    return (
        name.name, start, duration, flops, num_bytes, name.lane, name.collective, name.group,
        name.ranks,
    )  # fmt: skip
