"""The jobs that can be drawn: a model, a cluster, and offers of other clusters.

The prices are made up for the exercise: they are those of no provider.
"""

from dataclasses import dataclass

from simgpu.plan import PRESETS


@dataclass(frozen=True)
class Offer:
    """Nodes of eight GPUs that one can rent.

    Attributes
    ----------
    gpu, network : str
        As for ``simgpu plan``.
    price : float
        Dollars for a GPU and an hour.
    memory : str, optional
        Another memory than the preset's.
    """

    gpu: str
    network: str
    price: float
    memory: str | None = None

    @property
    def hardware(self):
        """The options of ``simgpu plan`` that describe it."""
        memory = {} if self.memory is None else {"memory": self.memory}
        return {"gpu": self.gpu, **memory, "network": self.network}

    def __str__(self):
        memory = f" with {self.memory}" if self.memory else ""
        return (
            f"{self.gpu}{memory}, nodes of 8 joined by {self.network}, {self.price:.2f} $/h a GPU"
        )


@dataclass(frozen=True)
class Job:
    """What is trained, on what, and plans that solve each level.

    Attributes
    ----------
    model : str
        A preset of ``simgpu plan``.
    batch : int
        Sequences of a step.
    cluster : str
        Which of the offers the first two levels have.
    gpus : int
        How many of them.
    mfu : float
        To be reached on the second level.
    offers : dict
        By name.
    rate : float
        Tokens a second, of all GPUs, that the deadline asks for.
    """

    model: str
    batch: int
    cluster: str
    gpus: int
    mfu: float
    offers: dict
    rate: float

    @property
    def tokens(self):
        """Tokens of a sequence: those of the preset."""
        return PRESETS[self.model].seq


JOBS = (
    Job(
        "llama2-7b", 128, "A", 16, 0.45,
        {
            "A": Offer("a100", "ethernet100", 1.30, "40GB"),
            "B": Offer("h100", "ndr", 3.20),
            "C": Offer("rtx4090", "ethernet100", 0.60),
        },
        130e3,
    ),
    Job(
        "gpt3-13b", 256, "A", 32, 0.56,
        {
            "A": Offer("v100", "edr", 0.45, "32GB"),
            "B": Offer("a100", "hdr", 1.90),
            "C": Offer("h100", "ethernet100", 2.40),
        },
        40e3,
    ),
    Job(
        "llama2-13b", 128, "A", 32, 0.17,
        {
            "A": Offer("h100", "ethernet100", 2.30),
            "B": Offer("a100", "hdr", 1.80),
            "C": Offer("v100", "edr", 0.75, "32GB"),
        },
        66e3,
    ),
    Job(
        "llama3-8b", 128, "A", 32, 0.58,
        {
            "A": Offer("a100", "hdr", 1.40, "40GB"),
            "B": Offer("h100", "ethernet100", 3.00),
            "C": Offer("rtx4090", "ethernet100", 0.40),
        },
        60e3,
    ),
    Job(
        "gpt3-6.7b", 256, "A", 32, 0.50,
        {
            "A": Offer("rtx4090", "ethernet100", 0.45),
            "B": Offer("a100", "hdr", 1.50, "40GB"),
            "C": Offer("h100", "ndr", 3.60),
        },
        400e3,
    ),
    Job(
        "mpt-30b", 256, "A", 32, 0.55,
        {
            "A": Offer("h100", "ndr", 3.30),
            "B": Offer("a100", "hdr", 1.40, "40GB"),
            "C": Offer("a100", "ethernet100", 0.90),
        },
        60e3,
    ),
)  # fmt: skip
