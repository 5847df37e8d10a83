"""What a plan is: how a step is split over GPUs and computed, and how it is written in a word."""

import re
from dataclasses import dataclass, fields

from simgpu.plan.step.rules import PlanError

SHARDS = ("none", "optimizer", "grad_op", "full")  # `Program.shard`, by ZeRO's stage
RECOMPUTE = {
    "none": "none", "core_attn": "attention", "selective": "products", "full": "full",
}  # `Program.recompute`, by option  # fmt: skip
PER_STAGE = 4  # micro-batches for each stage of a pipeline, if no batch is given
PARTS = ("every", "first")  # recompute=every:2, first:3: of the layers, fully
SCHEDULES = ("1f1b", "gpipe", "interleaved")
CHOICES = {"schedule": SCHEDULES, "shard": (*range(len(SHARDS)),)}
SHORT = {"micro_batch": "mb", "shard": "zero"}  # fields that a plan's name abbreviates


@dataclass(frozen=True)
class Plan:
    """How a step is split and computed; the rest of the GPUs are data parallel.

    Attributes
    ----------
    tp, pp, cp, ep : int
        Degrees of tensor, pipeline, context and expert parallelism.
    micro_batch : int
        Sequences that go through at once.
    recompute : str
        ``"none"``, ``"core_attn"`` (attention alone, which Megatron calls selective),
        ``"selective"`` (torchtitan's: all but attention and every second product), ``"full"``;
        full of some layers: ``"every:2"`` (of each two of a stage the second, as torchtitan's
        selective with a number), ``"first:3"`` (the first three of a stage: Megatron's block).
    shard : int, optional
        ZeRO's stage. None: 3 without tensor, pipeline and expert parallelism, else 1.
    schedule : str
        Of the pipeline: ``"1f1b"``, ``"gpipe"`` or ``"interleaved"``.
    chunks : int, optional
        Stages a rank, interleaved. None: 2.
    etp : int, optional
        Ranks that split each expert. None: `tp`.

    Raises
    ------
    PlanError
        If a number is not positive, or there is no such choice.

    Examples
    --------
    >>> str(Plan(tp=8, pp=4, micro_batch=2, recompute="full", shard=1))
    'tp8,pp4,mb2,zero1,recompute=full'
    """

    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    micro_batch: int = 1
    recompute: str = "none"
    shard: int | None = None
    schedule: str = "1f1b"
    chunks: int | None = None
    etp: int | None = None

    def __post_init__(self):
        for name, value in vars(self).items():
            if name == "recompute":
                recomputed(value)
            elif name not in CHOICES:
                check_positive(name, value)
            elif value not in CHOICES[name] and (name, value) != ("shard", None):
                choices = ", ".join(map(str, CHOICES[name]))
                raise PlanError(f"--{name} {value}: give one of {choices}")

    @property
    def zero(self):
        """ZeRO's stage: the one that is given, or the usual one of such a split."""
        if self.shard is not None:
            return self.shard
        return 1 if max(self.tp, self.pp, self.ep) > 1 or self.etp is not None else 3

    @property
    def stages_per_rank(self):
        """Stages of a pipeline that each of its ranks has."""
        if self.schedule != "interleaved":
            return 1
        return 2 if self.chunks is None else self.chunks

    def __str__(self):
        words = [f"{name}{getattr(self, name)}" for name in ("tp", "pp", "cp", "ep")
                 if getattr(self, name) > 1]  # fmt: skip
        words += [f"etp{self.etp}"] if self.etp not in (None, self.tp) else []
        words.append(f"mb{self.micro_batch}")
        words += [f"zero{self.shard}"] if self.shard is not None else []
        words += [f"recompute={self.recompute}"] if self.recompute != "none" else []
        words += [f"schedule={self.schedule}"] if self.schedule != "1f1b" else []
        words += [f"chunks{self.stages_per_rank}"] if self.stages_per_rank > 1 else []
        return ",".join(words)


NUMBERS = {
    SHORT.get(field.name, field.name): field.name
    for field in fields(Plan)
    if field.name not in ("recompute", "schedule")
}


def recomputed(text) -> dict:
    """Return the fields of `Program` that say what is recomputed, of an option's value.

    Raises
    ------
    PlanError
        If there is no such value.

    Examples
    --------
    >>> recomputed("selective"), recomputed("every:2")
    ({'recompute': 'products'}, {'recompute': 'full', 'recompute_every': 2})
    """
    name, _, count = str(text).partition(":")
    if text in RECOMPUTE:
        return {"recompute": RECOMPUTE[text]}
    if name in PARTS and count.isdigit() and int(count) > (name == "every"):
        return {"recompute": "full", f"recompute_{name}": int(count)}
    choices = ", ".join(RECOMPUTE)
    raise PlanError(f"--recompute {text}: give one of {choices}, every:N (2 or more), first:N")


def _is_recomputed(text):
    try:
        recomputed(text)
    except PlanError:
        return False
    return True


KNOWN = {"recompute": _is_recomputed, "schedule": SCHEDULES.__contains__}


def check_positive(name, value):
    """Refuse the value of an option that is neither a positive integer nor None."""
    if value is not None and (type(value) is not int or value < 1):
        raise PlanError(f"--{name.replace('_', '-')} {value}: give a positive integer")


def parse(text) -> Plan:
    """Return the plan of a name such as ``tp8,pp4,mb2,recompute=full``.

    Raises
    ------
    PlanError
        If a part of the name is unknown; the message lists the valid ones.

    Examples
    --------
    >>> plan = parse("tp8,pp4,chunks2,zero=1")
    >>> plan.tp, plan.shard, plan.schedule
    (8, 1, 'interleaved')
    """
    given = {}
    for part in text.split(","):
        name, value = _split(part.strip())
        if name in NUMBERS and value.isdigit():
            given[NUMBERS[name]] = int(value)
        elif name in KNOWN and KNOWN[name](value):
            given[name] = value
        else:
            raise PlanError(
                f"unknown plan option {part!r}; give {', '.join(NUMBERS)} with a number (tp8), "
                f"recompute={'|'.join(RECOMPUTE)}|every:N|first:N or schedule={'|'.join(SCHEDULES)}"
            )
    if given.get("chunks", 1) > 1:
        given.setdefault("schedule", "interleaved")
    elif given.get("schedule") == "interleaved":
        given["chunks"] = 2
    else:
        given.pop("chunks", None)
    return Plan(**given)


def _split(text):
    pattern = r"([a-z]+)=?([\w:]+)" if "=" in text else r"([a-z]+)(\d+)"
    match = re.fullmatch(pattern, text)
    return match.groups() if match else ("", "")
