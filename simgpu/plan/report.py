"""What a plan's step takes, in words and as numbers. All of it is simulated."""

from dataclasses import asdict, dataclass

from simgpu.network import nccl_memory
from simgpu.plan.errors import in_words
from simgpu.run.shares import CAUSES
from simgpu.units import number, percent, quantity, size


@dataclass(frozen=True)
class Report:
    """A step in a few numbers.

    Attributes
    ----------
    model, hardware, program : str
        In words.
    step_time_seconds : float
    tokens_per_step : int
        Of all GPUs; of a model that takes no tokens, its samples.
    unit : str
        What is counted: ``"tokens"`` or ``"samples"``.
    gpus : int
    mfu_share : float, optional
        FLOPs of the model (without what is computed again) over what the peaks allow, 0 to 1.
    peak_flop_per_second : float
        Of one GPU, for `dtype`.
    dtype : str
    parameters : int
    peak_memory_bytes : float
        Of what tensors take, on the GPU that needs most.
    peak_reserved_bytes : float
        Of the segments that PyTorch's caching allocator would hold for them on a large GPU.
    uncounted_memory_bytes : tuple
        The least and the most that CUDA's context and NCCL's buffers take besides.
    gpu_memory_bytes : int
    time_shares : dict
        Share of the step's time by cause, 0 to 1.
    error_of_time : tuple of float, optional
        Between which multiples of the predicted time nine of ten published steps took; None if too
        few were published.
    notes : tuple of str
        What was assumed.
    imbalance : float, optional
        Assumed tokens of the busiest expert parallel rank over the mean; None without experts.
    """

    model: str
    hardware: str
    program: str
    step_time_seconds: float
    tokens_per_step: int
    unit: str
    gpus: int
    mfu_share: float
    peak_flop_per_second: float
    dtype: str
    parameters: int
    peak_memory_bytes: float
    peak_reserved_bytes: float
    uncounted_memory_bytes: tuple
    gpu_memory_bytes: int
    time_shares: dict
    error_of_time: tuple | None = None
    notes: tuple = ()
    imbalance: float | None = None

    @property
    def rate(self):
        """Tokens a second, of all GPUs."""
        return self.tokens_per_step / self.step_time_seconds

    @property
    def limit(self):
        """The cause of the largest share of the time."""
        return max(self.time_shares, key=self.time_shares.get)

    @property
    def fits(self):
        """Whether the peak of what tensors take is below what a GPU has."""
        return self.peak_memory_bytes <= self.gpu_memory_bytes

    def to_dict(self) -> dict:
        """Return all numbers, for JSON; the end of a key is its unit."""
        found = asdict(self)
        return found | {
            f"{self.unit}_per_second": self.rate,
            f"{self.unit}_per_second_per_gpu": self.rate / self.gpus,
            "limited_by": self.limit,
            "fits": self.fits,
        }

    def __str__(self):
        share = self.peak_memory_bytes / self.gpu_memory_bytes
        memory = f"{100 * share:.0f} % of a GPU's {size(self.gpu_memory_bytes)}"
        memory += f"; {size(self.peak_reserved_bytes)} reserved"
        if not self.fits:
            memory += ": DOES NOT FIT"
        elif self.peak_reserved_bytes + self.uncounted_memory_bytes[1] > self.gpu_memory_bytes:
            memory += ": fits barely, if the allocator finds room beside what is not counted"
        peak = f"of {quantity(self.peak_flop_per_second, 'FLOP/s')} a GPU, the peak for"
        rows = [
            ("step time", quantity(self.step_time_seconds, "s"),
             f"{self.tokens_per_step:,} {self.unit}"),
            (f"{self.unit}/s", number(self.rate), f"{number(self.rate / self.gpus)} a GPU"),
            ("MFU", percent(self.mfu_share), f"{peak} {self.dtype}"),
            ("peak memory", size(self.peak_memory_bytes), memory),
            ("limited by", self.limit, CAUSES[self.limit]),
        ]  # fmt: skip
        causes = sorted(self.time_shares, key=self.time_shares.get, reverse=True)
        rows += [(f"  {c}", percent(self.time_shares[c]), "") for c in causes]
        lines = [
            f"simulated, not measured: {self.model}",
            f"  on {self.hardware}",
            f"  {self.program}",
            *(f"{a:<22} {b:<18} {c}".rstrip() for a, b, c in rows),
            f"how sure: {in_words(self.step_time_seconds, self.error_of_time)}",
            f"note: not counted are {nccl_memory.in_words(self.uncounted_memory_bytes)}",
            *(f"note: {note}" for note in self.notes),
        ]
        return "\n".join(lines)
