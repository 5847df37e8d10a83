"""The search for a model that a Python file makes: data parallel only, as it is.

How it could be split over ranks is not known, so micro-batch, recomputation (none or full) and
ZeRO's stage (0: DDP, 3: FSDP2) are all that is searched.
"""

import json
from collections import Counter

from simgpu.plan import options, user_model
from simgpu.plan.command import hardware_in_words, parameters_in_words, refuse_imbalance
from simgpu.plan.step.job import PlanError
from simgpu.search.best_first import NOT_RUN, TOO_LARGE, Search, Tried
from simgpu.search.report import SearchReport, explain
from simgpu.search.space import CHOSEN, Plan, parse

SEARCHED = ("micro_batch", "recompute", "shard")


def print_own(args, given):
    """Search micro-batch, recomputation and FSDP2 or DDP, and print what the options ask for.

    Parameters
    ----------
    args : argparse.Namespace
        Options of ``simgpu plan``.
    given : dict
        Those of `CHOSEN` that were given.
    """
    for name, value in given.items():
        if name not in SEARCHED and value not in (1, "1f1b"):
            option = name.replace("_", "-")
            raise PlanError(f"--{option} {value} cannot split {args.model}; leave it out")
    if args.export:
        raise PlanError(f"--export {args.export} needs the sizes of a model, not a .py file")
    refuse_imbalance(args)
    args.global_batch = args.global_batch or args.gpus
    cluster = options.cluster_of(args)
    dtype = options.dtype_of(args, cluster.gpu)
    make, batch = user_model.load(args.model)
    parameters, tokens = user_model.describe(make, batch, 1)
    found, flops = Search(), {}
    fixed = {CHOSEN[name]: value for name, value in given.items()}
    for plans in _ways(args, fixed, found):
        for plan in plans:
            job = user_model.OwnJob(
                make, batch, cluster, "full" if plan.zero == 3 else "none",
                plan.recompute == "full", dtype, plan.mb,
                args.global_batch // (args.gpus * plan.mb),
            )  # fmt: skip
            if not _try(plan, job, found, flops):
                break  # a larger micro-batch needs more memory
    found.tried.sort(key=lambda one: one.found.seconds)
    peak = cluster.gpu.flops[dtype] * args.gpus
    task = (f"unchanged: batch {args.global_batch:,} samples, {dtype}; searched: micro-batch, "
            "recomputation, ZeRO stage 0 or 3; data parallel only")  # fmt: skip
    report = SearchReport(
        f"{args.model}, {parameters_in_words(parameters)} parameters", hardware_in_words(cluster),
        task, found, args.gpus, args.global_batch * (tokens or 1),
        max(flops.values(), default=0) / peak,
        next((one for one in found.tried if one.plan == Plan(zero=0)), None), args.top,
    )  # fmt: skip
    print(_why(args.why, found, report) if args.why else
          json.dumps(report.to_dict()) if args.json else report)  # fmt: skip
    return report


def _ways(args, fixed, found):
    """Return lists of plans with ever larger micro-batches; count those that are impossible."""
    for zero in [fixed["zero"]] if "zero" in fixed else [0, 3]:
        for recompute in [fixed["recompute"]] if "recompute" in fixed else ["none", "full"]:
            each = args.global_batch // args.gpus
            sizes = [2**n for n in range(max(each, 1).bit_length())]
            sizes = [fixed["mb"]] if "mb" in fixed else sizes
            known = [n for n in sizes if args.global_batch % (args.gpus * n) == 0]
            words = "replicas x micro-batch does not divide the batch"
            found.rejected += Counter({words: len(sizes) - len(known)})
            yield [Plan(mb=n, recompute=recompute, zero=zero) for n in known]


def _try(plan, job, found, flops):
    found.simulated += 1
    try:
        taken, flops[plan] = user_model.simulate(job)
    except PlanError:
        found.rejected[NOT_RUN] += 1
        raise
    tried = Tried(plan, job, taken)
    if tried.fits:
        found.tried.append(tried)
    else:
        found.rejected[TOO_LARGE] += 1
        found.too_large[plan] = taken.memory
    return tried.fits


def _why(text, found, report):
    plan = parse(text)
    stages = [plan.zero] if plan.zero is not None else [0, 3]
    for one in found.tried:
        if (one.plan.mb, one.plan.recompute) == (plan.mb, plan.recompute) and (
            one.plan.zero in stages
        ):
            return explain(report, one)
    return f"{plan}: does not fit, or the batch is no multiple of replicas x micro-batch"
