"""What compiling has gained: kernels and seconds of regions as eager code, and as compiled."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Record:
    """What the regions of one `torch.compile` did.

    Attributes
    ----------
    plans : Counter
        How often each `Plan` was charged, the first that was made first.
    breaks : Counter
        How often a line of the user's program needed results inside a region.
    device : int
        Where that was last.
    call_seconds : float
        What calls of graphs took the host, beside launches.
    buffers : dict
        For each `Plan`: the block where the inputs of its CUDA graph are copied to.
    """

    plans: Counter = field(default_factory=Counter)
    breaks: Counter = field(default_factory=Counter)
    device: int = 0
    call_seconds: float = 0.0
    buffers: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Cost:
    """Kernels, what they take on the device, and what the host takes for them, in seconds."""

    kernels: float = 0
    device: float = 0.0
    host: float = 0.0

    @property
    def seconds(self) -> float:
        """The longer of both: the host issues kernels while others run."""
        return max(self.device, self.host)

    def __add__(self, other):
        return Cost(
            self.kernels + other.kernels, self.device + other.device, self.host + other.host
        )

    def __mul__(self, factor):
        return Cost(self.kernels * factor, self.device * factor, self.host * factor)


def total(records) -> tuple:
    """Return the `Cost` of all regions as eager code, and as compiled."""
    before = after = Cost()
    for record in records:
        after += Cost(host=record.call_seconds)
        for plan, count in record.plans.items():
            before += plan.costs[0] * count
            after += plan.costs[1] * count
    return before, after
