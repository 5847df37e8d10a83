"""Names, order and choice of the lanes of a timeline: one per engine, stream or thread."""

import re
from collections import defaultdict

_ENGINES = ("cpu", "launch", "sync", "loader", "compute", "comm", "h2d", "d2h", "p2p", "copy")
_HOST_ENGINES = ("cpu", "launch", "sync")
_DEVICE = re.compile(r"(?:rank ([0-9]{1,9}) )?(.*?)(?::([0-9]{1,9}))?", re.DOTALL)


def name_lanes(activities):
    """Name the lanes of a profile: ``{(device, base, stream): name}``.

    The host's main thread has "cpu", "launch" and "sync", other threads "cpu thread 1" and so on.
    On a device, the stream with the most work has the bare name, and the names of the others
    contain their numbers: "compute" and "stream 20"; "h2d" and "h2d stream 22".
    """
    seconds = defaultdict(lambda: defaultdict(float))
    for a in activities:
        seconds[a.device, a.base][a.stream] += a.duration
    names = {}
    for (device, base), streams in seconds.items():
        main = min(streams, key=lambda stream: (-streams[stream], stream))
        main = 0 if base in _HOST_ENGINES else main
        for stream in streams:
            word = "thread" if device == "host" else "stream"
            number = f"{word} {stream}" if base == "compute" else f"{base} {word} {stream}"
            names[device, base, stream] = base if stream == main else number
    return names


def lane_of(span):
    """Return the name of a span's lane, without the device."""
    return span.lane or span.engine


def is_host(device):
    """Return whether a device is the host, of any rank."""
    return _DEVICE.fullmatch(device)[2] == "host"


def is_simulated(device):
    """Return whether a device is a simulated GPU, of any rank."""
    return _DEVICE.fullmatch(device)[2] == "sim"


def order(lane, spans):
    """Return the sort key of a lane: by rank, host first, then by device, engine and stream."""
    device, name = lane
    rank, kind, number = _DEVICE.fullmatch(device).groups()
    engine = spans[0].engine
    return (
        int(rank or 0), kind != "host", kind, int(number or 0),
        _ENGINES.index(engine) if engine in _ENGINES else len(_ENGINES),
        name != engine and " " in name, spans[0].stream, name,
    )  # fmt: skip


def choose(lanes, heights, room):
    """Return the lanes that a figure has room for, in order.

    Lanes with bare names are preferred to those of other streams and threads, then those of GPUs to
    the many rows of a data loader, then busy ones to idle ones.

    Parameters
    ----------
    lanes : dict
        ``{(device, name): spans}``.
    heights : dict
        Number of rows that each lane needs.
    room : int
        Number of rows available.
    """

    def importance(lane):
        return " " in lane[1], lane[1] == "loader", -sum(span.duration for span in lanes[lane])

    chosen = set()
    for lane in sorted(lanes, key=importance):
        if heights[lane] <= room:
            chosen.add(lane)
            room -= heights[lane]
    return [lane for lane in lanes if lane in chosen]
