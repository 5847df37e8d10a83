"""What a plan is, its name, which plans there are, and why some are impossible."""

import copy
import re
from collections import Counter
from dataclasses import dataclass, fields, replace

from simgpu.plan import options
from simgpu.plan.step.job import PlanError

# Options that a search chooses if they are not given: name in the options, field of `Plan`.
CHOSEN = {
    "tp": "tp", "pp": "pp", "cp": "cp", "ep": "ep", "etp": "etp", "micro_batch": "mb",
    "recompute": "recompute", "shard": "zero", "schedule": "schedule", "chunks": "chunks",
}  # fmt: skip
RECOMPUTE = "none", "selective", "full"  # core_attn saves little of fused attention
SCHEDULES = (("1f1b", 1), ("interleaved", 2), ("interleaved", 4))


@dataclass(frozen=True)
class Plan:
    """How a step is split and computed; the rest of the GPUs are data parallel.

    Attributes
    ----------
    tp, pp, cp, ep, mb : int
        Degrees of tensor, pipeline, context and expert parallelism; sequences of a micro-batch.
    recompute : str
        ``"none"``, ``"core_attn"``, ``"selective"`` or ``"full"``, as for ``simgpu plan
        --recompute``.
    zero : int, optional
        ZeRO's stage. None: as ``simgpu plan`` chooses it.
    etp : int, optional
        Ranks that split each expert. None: `tp`.
    schedule : str
        ``"1f1b"``, ``"gpipe"`` or ``"interleaved"``.
    chunks : int
        Stages a rank, interleaved.

    Examples
    --------
    >>> str(Plan(tp=8, pp=4, mb=2, recompute="full", zero=1))
    'tp8,pp4,mb2,zero1,recompute=full'
    """

    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    mb: int = 1
    recompute: str = "none"
    zero: int | None = None
    schedule: str = "1f1b"
    chunks: int = 1
    etp: int | None = None

    def __str__(self):
        words = [f"{name}{getattr(self, name)}" for name in ("tp", "pp", "cp", "ep")
                 if getattr(self, name) > 1]  # fmt: skip
        words += [f"etp{self.etp}"] if self.etp not in (None, self.tp) else []
        words.append(f"mb{self.mb}")
        words += [f"zero{self.zero}"] if self.zero is not None else []
        words += [f"recompute={self.recompute}"] if self.recompute != "none" else []
        words += [f"schedule={self.schedule}"] if self.schedule != "1f1b" else []
        words += [f"chunks{self.chunks}"] if self.chunks > 1 else []
        return ",".join(words)


def parse(text) -> Plan:
    """Return the plan of a name such as ``tp8,pp4,mb2,recompute=full``.

    Raises
    ------
    PlanError
        If a part of it is none; the message names it and what may stand there.

    Examples
    --------
    >>> plan = parse("tp8,pp4,chunks2,zero=1")
    >>> plan.tp, plan.zero, plan.schedule
    (8, 1, 'interleaved')
    """
    numbers = [f.name for f in fields(Plan) if f.name not in ("recompute", "schedule")]
    found = {}
    for part in text.split(","):
        name, value = _part(part.strip())
        if name in numbers and value.isdigit():
            found[name] = int(value)
        elif value in {"recompute": options.RECOMPUTE, "schedule": options.SCHEDULES}.get(name, ()):
            found[name] = value
        else:
            raise PlanError(
                f"{part!r} is no part of a plan; give {', '.join(numbers)} with a number (tp8), "
                f"recompute={'|'.join(options.RECOMPUTE)} or schedule={'|'.join(options.SCHEDULES)}"
            )
    if found.get("chunks", 1) > 1:
        found.setdefault("schedule", "interleaved")
    elif found.get("schedule") == "interleaved":
        found["chunks"] = 2
    return Plan(**found)


def _part(text):
    match = re.fullmatch(r"([a-z]+)=?(\w+)", text) if "=" in text else re.fullmatch(
        r"([a-z]+)(\d+)", text
    )  # fmt: skip
    return match.groups() if match else ("", "")


def job_of(plan, args, model):
    """Return the `Job` of a plan, as ``simgpu plan`` with its options; `PlanError` if none is."""
    args = copy.copy(args)
    for option, name in CHOSEN.items():
        setattr(args, option, getattr(plan, name))
    args.chunks = plan.chunks if plan.schedule == "interleaved" else None
    return options.job_of(args, model)


def obstacle(plan, model, gpus, batch):
    """Return in a few words why a plan is impossible, or None: the rules of `job_of`."""
    if gpus % (plan.tp * plan.pp * plan.cp):
        return "tp x pp x cp does not divide the GPUs"
    data = gpus // (plan.tp * plan.pp)
    stages, replicas = plan.pp * plan.chunks, data // plan.cp
    count, rest = divmod(batch, replicas * plan.mb)
    split = plan.etp or plan.tp
    sharded = plan.zero in (2, 3)
    split_apart = plan.ep > 1 or split != plan.tp
    for reason, is_so in (
        ("fewer heads than tp", model.heads < plan.tp),
        ("tp does not divide the heads", model.heads % plan.tp),
        ("fewer heads of keys and values than tp", model.keys < plan.tp),
        ("tp does not divide the heads of keys and values", model.keys % plan.tp),
        ("tp does not divide the width of the feed-forward part", model.width % plan.tp),
        ("fewer layers than pp x chunks", model.layers < stages),
        ("pp x chunks does not divide the layers", model.layers % stages),
        ("tp x cp does not divide the positions", model.seq % (plan.tp * plan.cp)),
        ("ep without experts", plan.ep > 1 and not model.experts),
        ("ep does not divide the experts", model.experts % plan.ep),
        ("etp does not divide the width of an expert", model.width % split),
        ("ep x etp does not divide the ranks of a stage", data * plan.tp % (plan.ep * split)),
        (
            "PyTorch cannot recompute sharded experts selectively",
            sharded and split_apart and plan.recompute == "selective",
        ),
        ("the batch is too small for one micro-batch a replica", count < 1),
        ("replicas x micro-batch does not divide the batch", rest),
        ("fewer micro-batches than stages", plan.schedule != "gpipe" and count < plan.pp),
        ("micro-batches are no multiple of pp, interleaved", plan.chunks > 1 and count % plan.pp),
    ):
        if is_so:
            return reason
    return None


def plans(model, gpus, node, batch, given=None):
    """Return the possible plans, and how many are impossible for each reason.

    Tensor parallelism stays inside a node. With fewer micro-batches than stages a pipeline runs
    all forward passes first (GPipe), which is as fast as 1F1B otherwise and needs more memory.
    Left out are plans that are the same as another, or need more memory and are no faster.

    Parameters
    ----------
    model : Model
    gpus, node, batch : int
        GPUs in all, of a node, and sequences of a step.
    given : dict, optional
        Fields of `Plan` that are not searched, and their values.

    Returns
    -------
    tuple
        List of `Plan`, `collections.Counter` of reasons.
    """
    given, possible, reasons = given or {}, [], Counter()
    for plan in _all(model, gpus, node, batch, given):
        reason = obstacle(plan, model, gpus, batch)
        if reason:
            reasons[reason] += 1
        else:
            possible.append(plan)
    return possible, reasons


def _all(model, gpus, node, batch, given):
    def values(name, others):
        return [given[name]] if name in given else others

    for tp in values("tp", _divisors(node)):
        for pp in values("pp", _divisors(max(gpus // tp, 1))):
            data = max(gpus // (tp * pp), 1)
            for cp in values("cp", _powers(min(data, model.seq))):
                for ep, etp in _places(model, tp, values):
                    # Half of the contexts with half of the micro-batch: fewer messages.
                    most = max(batch // data, 1) if cp == 1 else 1
                    for mb in values("mb", _powers(most)):
                        yield from _ways(Plan(tp, pp, cp, ep, mb, etp=etp), data, batch, values)


def _places(model, tp, values):
    """Iterate over places of experts: each split as the other layers are, or whole on a rank."""
    for ep in values("ep", _divisors(model.experts) if model.experts else [1]):
        for etp in values("etp", [None, 1] if model.experts and tp > 1 else [None]):
            yield ep, etp


def _ways(plan, data, batch, values):
    """Iterate over recomputation, sharding and schedules for a mesh and a micro-batch."""
    few = batch * plan.cp // (data * plan.mb) < plan.pp
    for recompute in values("recompute", RECOMPUTE):
        for zero in values("zero", _stages_of_zero(plan, data)):
            for schedule, chunks in _schedules(plan, few, values):
                yield replace(
                    plan, recompute=recompute, zero=zero, schedule=schedule, chunks=chunks
                )


def _stages_of_zero(plan, data):
    """Without a pipeline 1 to 3; in one, what FSDP has gathered stays, so 1 needs less."""
    if data == 1:
        return [0]
    return [1] if plan.pp > 1 else [1, 2, 3]


def _schedules(plan, few, values):
    if plan.pp == 1:
        return [("1f1b", 1)]
    known = [("gpipe", 1) if few else ("1f1b", 1), *SCHEDULES[1:]]
    wanted, chunks = values("schedule", None), values("chunks", None)
    if wanted:
        known = [one for one in (("gpipe", 1), *SCHEDULES) if one[0] == wanted[0]]
    return [(known[-1][0], chunks[0])] if chunks else known


def _divisors(number):
    return [n for n in range(1, number + 1) if number % n == 0]


def _powers(most):
    return [2**n for n in range(most.bit_length())]
