"""Wait before a rank's first kernel: Note [Kernels beside a collective] of `simgpu.ranks`."""


class BeforeKernels:
    """The collectives that ranks have issued since their last kernels.

    It is the `Sink` of a device from a collective to the next kernel.
    """

    def __init__(self, scheduler, machine):
        self._scheduler, self._machine = scheduler, machine
        self._issued = {}  # rank -> collectives

    def add(self, rank, device, collective) -> None:
        """Add a collective on the device of a rank; its next kernel waits for other ranks."""
        self._issued.setdefault(rank, []).append(collective)
        device.sink = self

    def launch(self, *kernel, **facts) -> None:
        """Switch to ranks that can issue their parts; then issue the current rank's kernel."""
        rank = self._scheduler.running
        device = self._machine.devices[rank.index]
        device.sink = device
        collectives = self._issued.pop(rank, ())
        self._scheduler.wait(lambda: all(c.scheduled for c in collectives), None, must_wait=False)
        device.launch(*kernel, **facts)

    def close(self) -> None:
        """Let all kernels start without waiting."""
        for device in self._machine.devices:
            device.sink = device
