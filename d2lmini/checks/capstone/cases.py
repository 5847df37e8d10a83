"""What a reader has to plan, and what a plan costs: drawn from a name, out of `JOBS`."""

import random
import textwrap
from dataclasses import dataclass, replace

import simgpu as sim
from d2lmini.checks.capstone.jobs import JOBS, Job
from simgpu.units import number, percent, quantity, size

ROOM = 0.9  # of a GPU's memory is for tensors; the CUDA context, NCCL and gaps need the rest
DAY = 86_400  # seconds
KEYS = ("tp", "pp", "cp", "shard", "schedule", "chunks", "micro_batch", "recompute")
CHOICES = ("offer", "gpus")  # keys that plans of the last level have besides
COUNTS = (8, 16, 32, 64)  # of GPUs that can be rented


@dataclass(frozen=True)
class Outcome:
    """What a plan's step takes, and the whole training. All of it is simulated.

    Attributes
    ----------
    report : simgpu.plan.report.Report
        What ``simgpu plan`` finds.
    days, dollars : float
        Of the whole training, without any interruption.
    """

    report: object
    days: float
    dollars: float

    @property
    def memory_share(self):
        """The peak of what tensors take, as a share of a GPU's memory."""
        return self.report.peak_memory_bytes / self.report.gpu_memory_bytes

    @property
    def fits(self):
        """Whether tensors take at most 90 % of a GPU's memory."""
        return self.memory_share <= ROOM

    @property
    def mfu(self):
        """Model FLOPs utilisation, 0 to 1."""
        return self.report.mfu_share

    def __str__(self):
        found = self.report
        causes = sorted(found.time_shares.items(), key=lambda item: -item[1])
        causes = ", ".join(f"{name} {percent(share)}" for name, share in causes[:3])
        rows = [
            ("memory", f"{size(found.peak_memory_bytes)}, {percent(self.memory_share)} of a GPU's"
             + ("" if self.fits else ": DOES NOT FIT")),
            ("step", f"{quantity(found.step_time_seconds, 's')} (simulated)"),
            ("MFU", percent(self.mfu)),
            ("limited by", causes),
            ("training", f"{number(self.days)} days, {number(self.dollars)} dollars"),
        ]  # fmt: skip
        return "\n".join(f"{name:13} {text}" for name, text in rows)


@dataclass(frozen=True)
class Case:
    """A model, a cluster, offers of other clusters, and a deadline.

    Attributes
    ----------
    seed : str
    job : Job
        The model, its batch, and the clusters.
    tokens : float
        To train on.
    days : float
        The deadline.
    """

    seed: str
    job: Job
    tokens: float
    days: float

    def outcome(self, plan) -> Outcome:
        """Simulate a plan.

        Parameters
        ----------
        plan : dict
            Options of ``simgpu plan``: "tp", "pp", "cp", "shard" (ZeRO's stage), "schedule",
            "chunks", "micro_batch", "recompute". The cluster is that of the case, unless the plan
            has an "offer" and "gpus".

        Returns
        -------
        Outcome

        Raises
        ------
        ValueError
            If a key is unknown, or options do not fit each other; the message says why.
        """
        unknown = [key for key in plan if key not in KEYS + CHOICES]
        if unknown:
            raise ValueError(f"a plan has no {unknown[0]!r}; it has {', '.join(KEYS + CHOICES)}")
        plan = dict(plan)
        name = plan.pop("offer", self.job.cluster)
        gpus = plan.pop("gpus", self.job.gpus)
        if name not in self.job.offers:
            raise ValueError(f"there is no offer {name!r}; take {', '.join(self.job.offers)}")
        if gpus not in COUNTS:
            raise ValueError(f"gpus is {gpus!r}; one can rent {', '.join(map(str, COUNTS))}")
        offer = self.job.offers[name]
        report = sim.plan(
            self.job.model, gpus=gpus, global_batch=self.job.batch, **offer.hardware, **plan
        )
        days = self.tokens / report.rate / DAY
        return Outcome(report, days, days * 24 * gpus * offer.price)

    def command(self, plan) -> str:
        """Return the command of a shell that simulates a plan on the cluster of the case."""
        offer = self.job.offers[plan.get("offer", self.job.cluster)]
        options = {"gpus": self.job.gpus, **offer.hardware, "global_batch": self.job.batch, **plan}
        words = (f"--{k.replace('_', '-')} {v}" for k, v in options.items() if k != "offer")
        text = " ".join([f"python -m simgpu plan {self.job.model}", *words])
        lines = textwrap.wrap(text, 76, subsequent_indent="  ", break_on_hyphens=False)
        return " \\\n".join(lines)

    def __str__(self):
        job = self.job
        lines = [
            f"model      {job.model}, {job.batch} sequences of {job.tokens:,} tokens a step",
            f"cluster    offer {job.cluster}, {job.gpus} GPUs",
            f"level 1    it fits: tensors take at most {ROOM:.0%} of a GPU's memory",
            f"level 2    an MFU of at least {job.mfu:.0%}",
            f"level 3    {self.tokens / 1e9:.1f} billion tokens in {self.days:g} days, at the "
            f"lowest price, on {', '.join(map(str, COUNTS))} GPUs of one offer:",
        ]
        return "\n".join([*lines, *(f"  {name}  {text}" for name, text in job.offers.items())])


def case_of(seed) -> Case:
    """Draw a case.

    Parameters
    ----------
    seed : str
        Your name: the same name gives the same case everywhere.

    Returns
    -------
    Case
        Its text says what there is to do.
    """
    if not isinstance(seed, str) or not seed.strip():
        raise ValueError(f"the seed is {seed!r}; give your name, a text")
    draw = random.Random(f"case of {seed}")
    job = draw.choice(JOBS)
    days = draw.choice((4, 5, 6, 7, 8, 10, 12, 14))
    factor = draw.choice((0.8, 0.9, 1.0, 1.1, 1.2))  # of all prices: the cheapest stays so
    offers = {
        name: replace(offer, price=round(offer.price * factor, 2))
        for name, offer in job.offers.items()
    }
    tokens = round(job.rate * days * DAY, -8)
    return Case(seed, replace(job, offers=offers), tokens, float(days))
