"""Wait before a rank's first kernel: Note [Kernels beside a collective] of `simgpu.ranks`."""


class BeforeKernels:
    """The collectives that ranks have issued since their last kernels."""

    def __init__(self, scheduler, machine):
        self._scheduler, self._machine = scheduler, machine
        self._issued = {}  # rank -> collectives

    def add(self, rank, device, collective) -> None:
        """Add a collective on the device of a rank; its next kernel waits for other ranks."""
        self._issued.setdefault(rank, []).append(collective)
        if not any(isinstance(sink, _Waiting) for sink in device.sinks()):
            device.sink = _Waiting(self, device)

    def run_others_first(self) -> None:
        """Switch to ranks that can issue their parts."""
        collectives = self._issued.pop(self._scheduler.running, ())
        self._scheduler.wait(lambda: all(c.scheduled for c in collectives), None, must_wait=False)

    def is_own(self, device) -> bool:
        """Whether a device is that of the current rank."""
        return self._machine.devices[self._scheduler.running.index] is device

    def close(self) -> None:
        """Let all kernels start without waiting."""
        for device in self._machine.devices:
            for sink in list(device.sinks()):
                if isinstance(sink, _Waiting):
                    device.take_out(sink)


class _Waiting:
    """The `Sink` of a device from a collective to the next kernel of its rank."""

    def __init__(self, ranks, device):
        self.ranks, self.device, self.next = ranks, device, device.sink

    def launch(self, *kernel, **facts) -> None:
        """Let other ranks run first, unless the kernel is another rank's; then pass it on."""
        if self.ranks.is_own(self.device):
            self.device.take_out(self)
            self.ranks.run_others_first()
        self.next.launch(*kernel, **facts)

    @property
    def has_constants(self):
        """Whether the next sink has."""
        return self.next.has_constants

    def settle(self, read=None) -> None:
        """Pass on what the next sink holds back."""
        self.next.settle(read)
