"""Streams: which one is current."""

from simgpu.clock import current


class StreamContext:
    """``with torch.cuda.stream(s):``; None changes nothing."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        if self.stream is not None:
            self.stream.__enter__()
        return self.stream

    def __exit__(self, *error):
        if self.stream is not None:
            self.stream.__exit__(*error)


def stream(stream) -> StreamContext:
    """Return the context manager in which a stream is the current one."""
    return StreamContext(stream)


def set_stream(stream) -> None:
    """Make a stream, and its device, the current one; None changes nothing."""
    if stream is not None:
        current.set_device(stream.device.index)
        stream._device.set_current_stream(stream)
