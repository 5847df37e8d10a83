"""The record of what ran: compact while a program runs, a list of spans when asked for."""

import struct

from d2lmini.sim.clock.span import Span

_ROW = struct.Struct("<hBIIddqq")  # device, engine, stream, name, start, duration, flops, bytes
ENGINES = ("compute", "h2d", "d2h", "p2p", "launch", "cpu", "sync")
COMPUTE, H2D, D2H, P2P, LAUNCH, CPU_ENGINE, SYNC = range(len(ENGINES))
HOST = -1


class Trace:
    """A growing list of spans at about 50 bytes each (a training run makes millions)."""

    def __init__(self):
        self._rows = bytearray()
        self._names: dict[str, int] = {}

    def add(self, device, engine, stream, name, start, duration, flops=0, num_bytes=0):
        """Append one span; `device` is an index or `HOST`, `engine` an index into `ENGINES`."""
        names = self._names
        number = names.get(name)
        if number is None:
            number = names[name] = len(names)
        self._rows += _ROW.pack(device, engine, stream, number, start, duration, flops, num_bytes)

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
                "host" if device == HOST else f"sim:{device}",
                ENGINES[engine],
                stream,
                names[name],
                start,
                duration,
                flops,
                num_bytes,
            )
            for device, engine, stream, name, start, duration, flops, num_bytes in (
                _ROW.iter_unpack(bytes(self._rows))
            )
        ]
