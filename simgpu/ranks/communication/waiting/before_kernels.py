"""Wait before a rank's first kernel: Note [Kernels beside a collective] of `simgpu.ranks`."""


class BeforeKernels:
    """The collectives that ranks have issued since their last kernels."""

    def __init__(self, scheduler, machine):
        self._scheduler, self._machine = scheduler, machine
        self._issued = {}  # rank -> collectives

    def add(self, rank, device, collective) -> None:
        """Add a collective on the device of a rank; its next kernel waits for other ranks."""
        self._issued.setdefault(rank, []).append(collective)
        device.before_kernel = self._run_others_first

    def _run_others_first(self):
        """Switch to ranks that can issue their parts."""
        rank = self._scheduler.running
        self._machine.devices[rank.index].before_kernel = None
        collectives = self._issued.pop(rank, ())
        self._scheduler.wait(lambda: all(c.scheduled for c in collectives), None, must_wait=False)

    def close(self) -> None:
        """Let all kernels start without waiting."""
        for device in self._machine.devices:
            device.before_kernel = None
