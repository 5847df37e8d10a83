"""Runs ``simgpu plan --search``: from the options to what is printed."""

import json

from simgpu.plan import errors, options
from simgpu.plan.command import hardware_in_words, parameters_in_words, routing_in_words
from simgpu.plan.model_file import find_model
from simgpu.plan.simulate import simulate
from simgpu.plan.step.job import PlanError
from simgpu.search import space
from simgpu.search.best_first import ROOM, Tried, search, workers_for
from simgpu.search.export import flags
from simgpu.search.floors import floor
from simgpu.search.report import SearchReport, explain
from simgpu.units import size


def print_search(args, given):
    """Search, and print the report, or what else the options ask for.

    Parameters
    ----------
    args : argparse.Namespace
        Options of ``simgpu plan``.
    given : dict
        Those of `space.CHOSEN` that were given: they are not searched.
    """
    model = options.with_sequence(find_model(args.model), args)
    options.check_imbalance(args, model)
    batch = args.global_batch = args.global_batch or args.gpus
    cluster = options.cluster_of(args)
    wanted = args.why and space.parse(args.why)
    fixed = {space.CHOSEN[name]: value for name, value in given.items()}
    plans, reasons = space.plans(model, args.gpus, cluster.gpus_per_node, batch, fixed)
    jobs = {plan: space.job_of(plan, args, model) for plan in plans}
    workers = args.jobs or workers_for(args.gpus)
    found = search(jobs, reasons, workers, args.top)
    report = _report(args, model, cluster, found)
    if wanted:
        print(why(wanted, args, model, report))
    elif args.export:
        print(_exported(args.export, report))
    else:
        print(json.dumps(report.to_dict()) if args.json else report)
    return report


def _report(args, model, cluster, found):
    dtype = options.dtype_of(args, cluster.gpu)
    flops = model.flops(args.global_batch) / cluster.gpu.flops[dtype] / args.gpus
    task = (f"unchanged: batch {args.global_batch:,} sequences of {model.seq:,} tokens, {dtype}; "
            "searched: mesh, micro-batch, schedule, recomputation, ZeRO stage")  # fmt: skip
    if args.imbalance != 1:
        task += f"; {routing_in_words(args.imbalance)}"
    words = f"{args.model}, {parameters_in_words(model.parameters)} parameters"
    base = baseline(args, model, cluster, found)
    return SearchReport(
        words, hardware_in_words(cluster), task, found, args.gpus,
        args.global_batch * model.seq, flops, base,
        args.top, errors.band_of(model.experts),
    )  # fmt: skip


def baseline(args, model, cluster, found):
    """Return the plan by rule of thumb: the largest tp in a node, then the smallest pp that fits.

    Micro-batches of one sequence, 1F1B, ZeRO-1; every layer is recomputed if nothing fits else.
    None if nothing fits.
    """
    for tp in reversed(range(1, cluster.gpus_per_node + 1)):
        pairs = [(r, pp) for r in ("none", "full") for pp in range(1, args.gpus // tp + 1)]
        plans = [_simple(tp, pp, recompute, args) for recompute, pp in pairs]
        possible = [p for p in plans if not space.obstacle(p, model, args.gpus, args.global_batch)]
        if possible:
            tries = (_tried(plan, args, model, found) for plan in possible)
            return next((one for one in tries if one and one.fits), None)
    return None


def _simple(tp, pp, recompute, args):
    zero = 1 if args.gpus > tp * pp else 0
    return space.Plan(tp, pp, recompute=recompute, zero=zero)


def _tried(plan, args, model, found):
    """Simulate a plan; return None if it cannot fit or run."""
    known = next((one for one in found.tried if one.plan == plan), None)
    if known:
        return known
    job = space.job_of(plan, args, model)
    if floor(job).memory > ROOM * job.cluster.gpu.memory or plan in found.too_large:
        return None
    try:
        return Tried(plan, job, simulate(job))
    except PlanError:
        return None


def why(plan, args, model, report):
    """Return why a plan is not the best: its constraint, its memory, or its time."""
    if plan.zero is None:
        data = args.gpus // (plan.tp * plan.pp)
        apart = max(plan.tp, plan.pp, plan.ep) > 1 or plan.etp
        zero = 0 if data == 1 else 1 if apart else 3
        plan = space.Plan(**{**vars(plan), "zero": zero})
    reason = space.obstacle(plan, model, args.gpus, args.global_batch)
    if reason:
        try:
            space.job_of(plan, args, model)
        except ValueError as error:
            return f"{plan} is impossible: {reason}\n  {error}"
        return f"{plan} is impossible: {reason}"
    job = space.job_of(plan, args, model)
    least, memory = floor(job).memory, job.cluster.gpu.memory
    if least > memory:
        return f"{plan}: does not fit: needs at least {size(round(least))} of {size(memory)}"
    known = next((one for one in report.search.tried if one.plan == plan), None)
    return explain(report, known or Tried(plan, job, simulate(job)))


def _exported(program, report):
    if report.best is None:
        raise PlanError("no plan fits; leave --export out to see why")
    return flags(program, report.best.plan, report.best.job)
