"""Which kind a run is of. Runs of a kind are predicted about equally well.

Rows of a kind are often few. So there are `LEVELS`, from specific to general: each says which
features are kept. A run has the band of the first level on which `ENOUGH` rows of its kind were
published, by `SOURCES` or more; if there is none, of the first with `ENOUGH` rows. Some features
are on every level: a band is never that of other GPUs, of other types of numbers, of experts for a
dense model, of whole sequences for split ones, or of steps that launches limit for others. If
launches limit a run, the host decides, so on the last level any GPU and any numbers will do.
"""

from collections import defaultdict
from dataclasses import dataclass, fields, replace

from simgpu.hardware.host import is_assumed

ENOUGH = 10  # rows: nine of ten can be told from so many
SOURCES = 2  # rows of one source are alike: the same program, on the same machines
# Launches limit a run from this share of its time on: a kernel starts up in 2 us, which is counted
# with launches, and the slowest published host needs 46.5 us for one. Where kernels start up for
# this share of the time, such a host takes as long as the GPU.
LAUNCHES = 0.04
BITS = {"float8": "8-bit", "int8": "8-bit", "bfloat16": "16-bit", "float16": "16-bit"}
ANY = ""
STATED = "stated launches"
# What is said of `Kind.limit`. It is not the largest share, which reports call "limited by".
LIMITS = {
    "launches": f"launches take {100 * LAUNCHES:g} % or more",
    STATED: f"stated launches take {100 * LAUNCHES:g} % or more",
    "wires": "wires take more than kernels",
    "kernels": "kernels take more than wires",
}


@dataclass(frozen=True)
class Kind:
    """What a run is, as far as it decides how well it is predicted; ``""``: any.

    Attributes
    ----------
    gpu : str
        Family of the GPU: ``"h100"`` also of one with another memory.
    numbers : str
        Of its products: ``"8-bit"``, ``"16-bit"`` or ``"32-bit"``, TF32 included.
    limit : str
        What limits it: ``"launches"``, ``"stated launches"`` if somebody has stated or measured
        what the host takes (no such step was published), ``"wires"``, or ``"kernels"``, by
        products or bandwidth: published rows of both are predicted equally well.
    code : str
        ``"compiled"``, fused kernels included, or ``"eager"``.
    place : str
        ``"one GPU"``, ``"one node"`` or ``"several nodes"``.
    model : str
        ``"dense"`` or ``"experts"``.
    sequences : str
        ``"whole"``, or ``"split"`` among ranks (context parallelism).
    """

    gpu: str
    numbers: str
    limit: str
    code: str
    place: str
    model: str = "dense"
    sequences: str = "whole"

    def __str__(self):
        words = [
            self.gpu.upper() or "any GPU", self.numbers, self.code, self.place,
            "experts" if self.model == "experts" else "",
            "split sequences" if self.sequences == "split" else "",
            self.limit and LIMITS[self.limit],
        ]  # fmt: skip
        return ", ".join(word for word in words if word)


FEATURES = tuple(field.name for field in fields(Kind))
# What is kept, from specific to general; the other features may be any.
ALWAYS = ("gpu", "numbers", "model", "sequences")
LEVELS = (
    FEATURES,
    (*ALWAYS, "code", "place"),
    (*ALWAYS, "place"),
    ALWAYS,
)
OF_LAUNCHES = (*LEVELS, ("model", "sequences"))  # one more if launches limit a run


def kind_of(cluster, numbers, causes, compiled, experts=False, split=False) -> Kind:
    """Return the kind of a run.

    Parameters
    ----------
    cluster : Cluster
    numbers : str
        The type of most products, such as ``"bfloat16"``.
    causes : dict
        Times, or shares of it, by cause (`simgpu.run.causes.shares.CAUSES`).
    compiled : bool
    experts, split : bool
        Whether the model is a mixture of experts, and sequences are split among ranks.
    """
    limit = limit_of(causes)
    if limit == "launches" and not is_assumed(cluster.gpu):
        limit = STATED
    place = "several nodes" if cluster.nodes > 1 else "one node"
    return Kind(
        cluster.gpu.name.partition("-")[0], BITS.get(numbers, "32-bit"), limit,
        "compiled" if compiled else "eager", "one GPU" if cluster.world_size == 1 else place,
        "experts" if experts else "dense", "split" if split else "whole",
    )  # fmt: skip


def limit_of(causes) -> str:
    """Return what limits a run, by the times or shares of its causes.

    Examples
    --------
    >>> causes = {"compute": 0.5, "memory bandwidth": 0.2, "launches": 0.02}
    >>> limit_of({**causes, "waiting for others": 0.28})
    'kernels'
    >>> limit_of({**causes, "waiting for others": 0.0, "launches": 0.1})
    'launches'
    """
    took = defaultdict(float, causes)
    busy = sum(took.values()) - took["waiting for others"]
    if took["launches"] > 0 and took["launches"] >= LAUNCHES * busy:
        return "launches"
    wires = took["communication"] + took["copies"]
    return "wires" if wires > max(took["compute"], took["memory bandwidth"]) else "kernels"


def broader(kind):
    """Yield a kind as each level sees it, from specific to general."""
    launches = kind.limit in ("launches", STATED)
    for kept in OF_LAUNCHES if launches else LEVELS:
        kept = (*kept, "limit") if launches else kept
        yield replace(kind, **dict.fromkeys(set(FEATURES) - {*kept}, ANY))
