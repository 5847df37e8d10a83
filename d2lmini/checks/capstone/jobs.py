"""The jobs that can be drawn: a model, a cluster, offers of other clusters, and plans that solve it.

Whoever reads on sees solutions. The prices are made up for the exercise: they are those of no
provider.
"""

from dataclasses import dataclass


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
        return f"{self.gpu}{memory}, nodes of 8 joined by {self.network}, {self.price:.2f} $/h a GPU"


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
    fits, fast, cheapest : dict
        Plans that pass.
    """

    model: str
    batch: int
    cluster: str
    gpus: int
    mfu: float
    offers: dict
    rate: float
    fits: dict
    fast: dict
    cheapest: dict


def _plan(tp, shard, micro_batch, recompute, offer=None, gpus=None):
    plan = {"tp": tp, "shard": shard, "micro_batch": micro_batch, "recompute": recompute}
    return plan if offer is None else plan | {"offer": offer, "gpus": gpus}


JOBS = (
    Job(
        "llama2-7b", 128, "A", 16, 0.45,
        {
            "A": Offer("a100", "ethernet100", 1.30, "40GB"),
            "B": Offer("h100", "ndr", 3.20),
            "C": Offer("rtx4090", "ethernet100", 0.60),
        },
        130e3,
        _plan(8, 1, 1, "none"), _plan(2, 1, 4, "full"), _plan(1, 3, 1, "none", "B", 16),
    ),
)  # fmt: skip
