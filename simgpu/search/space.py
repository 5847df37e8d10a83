"""Which plans there are for a model on some GPUs, and which of them are possible."""

from collections import Counter
from dataclasses import replace

from simgpu.plan.plans import Plan
from simgpu.plan.step.job import PlanError
from simgpu.plan.step.recipe.names import OF_MATRICES

RECOMPUTE = "none", "selective", "full"  # core_attn saves little of fused attention
SCHEDULES = (("1f1b", None), ("interleaved", 2), ("interleaved", 4))


def jobs_of(request, fixed=None):
    """Return the possible plans of a request, and how many are impossible for each reason.

    Tensor parallelism stays inside a node. With fewer micro-batches than stages a pipeline runs
    all forward passes first (GPipe), which is as fast as 1F1B otherwise and needs more memory.
    Left out are plans that are the same as another, or need more memory and are no faster.

    Parameters
    ----------
    request : Request
        With a batch; its plan is not looked at.
    fixed : dict, optional
        Fields of `Plan` that are not searched, and their values.

    Returns
    -------
    tuple
        Dict of the `Job` of each `Plan`, `collections.Counter` of reasons.
    """
    return possible(request, _candidates(request, fixed or {}))


def possible(request, plans):
    """Return the job of each plan that is possible, and how many are not, by reason."""
    jobs, reasons = {}, Counter()
    for plan in plans:
        job = _job_of(request, plan)
        if isinstance(job, PlanError):
            reasons[job.reason] += 1
        else:
            jobs[plan] = job
    return jobs, reasons


def _job_of(request, plan):
    """Return the job of a plan, or the error that says why there is none."""
    try:
        return replace(request, plan=plan).job()
    except PlanError as error:
        return error


def _candidates(request, fixed):
    if request.workload.optimizer in OF_MATRICES:
        fixed = {"shard": 0, "tp": 1, **fixed}

    def values(name, others):
        return [fixed[name]] if name in fixed else others

    model, gpus, batch = request.model, request.gpus, request.workload.global_batch
    if model.has_sizes:
        return _splits(model, gpus, request.cluster.gpus_per_node, batch, values)
    return _unsplit(max(batch // gpus, 1), values)


def _unsplit(most, values):
    """Iterate over data parallel plans: how else its layers could be split is not known."""
    for shard in values("shard", [0, 3]):
        for recompute in values("recompute", ["none", "full"]):
            for micro_batch in values("micro_batch", _powers(most)):
                yield Plan(micro_batch=micro_batch, recompute=recompute, shard=shard)


def _splits(model, gpus, node, batch, values):
    for tp in values("tp", _divisors(node)):
        for pp in values("pp", _divisors(max(gpus // tp, 1))):
            data = max(gpus // (tp * pp), 1)
            for cp in values("cp", _powers(min(data, model.seq))):
                for ep, etp in _places(model, tp, values):
                    # Half of the contexts with half of the micro-batch: fewer messages.
                    most = max(batch // data, 1) if cp == 1 else 1
                    for micro_batch in values("micro_batch", _powers(most)):
                        plan = Plan(tp, pp, cp, ep, micro_batch, etp=etp)
                        yield from _ways(plan, data, batch, values)


def _places(model, tp, values):
    """Iterate over places of experts: each split as the other layers are, or whole on a rank."""
    for ep in values("ep", _divisors(model.experts) if model.experts else [1]):
        for etp in values("etp", [None, 1] if model.experts and tp > 1 else [None]):
            yield ep, etp


def _ways(plan, data, batch, values):
    """Iterate over recomputation, sharding and schedules for a mesh and a micro-batch."""
    few = batch * plan.cp // (data * plan.micro_batch) < plan.pp
    for recompute in values("recompute", RECOMPUTE):
        for shard in values("shard", _stages_of_zero(plan, data)):
            for schedule, chunks in _schedules(plan, few, values):
                yield replace(
                    plan, recompute=recompute, shard=shard, schedule=schedule, chunks=chunks
                )


def _stages_of_zero(plan, data):
    """Return 1 to 3; with a pipeline, FSDP keeps what it has gathered, so 1 needs less."""
    if data == 1:
        return [0]
    return [1] if plan.pp > 1 else [1, 2, 3]


def _schedules(plan, few, values):
    if plan.pp == 1:
        return [("1f1b", None)]
    known = [("gpipe", None) if few else ("1f1b", None), *SCHEDULES[1:]]
    wanted, chunks = values("schedule", None), values("chunks", None)
    if wanted:
        known = [one for one in (("gpipe", None), *SCHEDULES) if one[0] == wanted[0]]
    return [(known[-1][0], chunks[0])] if chunks else known


def _divisors(number):
    return [n for n in range(1, number + 1) if number % n == 0]


def _powers(most):
    return [2**n for n in range(most.bit_length())]
