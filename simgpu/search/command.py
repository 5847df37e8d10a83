"""Runs ``simgpu plan --search``: from the request to what is printed."""

import json
from dataclasses import replace

from simgpu.hardware import find_gpu_and_link
from simgpu.network.boards import board_of
from simgpu.plan.plans import Plan, parse
from simgpu.plan.report import (
    class_of_recipe,
    hardware_in_words,
    model_in_words,
    routing_in_words,
)
from simgpu.plan.request import plan_options, request_of
from simgpu.plan.simulate import simulate
from simgpu.plan.step.job import PlanError
from simgpu.search import cheapest
from simgpu.search.best_first import ROOM, Tried, search, workers_for
from simgpu.search.bounds import bounds_of
from simgpu.search.export import flags
from simgpu.search.report import SearchReport, explain
from simgpu.search.space import jobs_of, possible
from simgpu.units import size


def print_search(request, args):
    """Search, and print the report, or what else the options ask for.

    Parameters
    ----------
    request : Request
    args : argparse.Namespace
        Options of ``simgpu plan``: those of its plan that were given are not searched.
    """
    if args.export and not request.model.has_sizes:
        raise PlanError(f"--export {args.export} needs the sizes of a model, not a .py file")
    if args.cheapest:
        print_cheapest(request, args)
        return
    wanted = args.why and parse(args.why)
    report = search_report(request, plan_options(args), args.jobs, args.top)
    if wanted:
        print(why(wanted, request, report))
    elif args.export:
        print(_exported(args.export, report))
    else:
        print(json.dumps(report.to_dict()) if args.json else report)


def print_cheapest(request, args):
    """Look for the cheapest run that ends in time, and print what was found."""
    given = vars(args)
    cheapest.check(request, given)

    def request_with(gpu, gpus):
        board = board_of(find_gpu_and_link(gpu, given.get("link"))[1])
        return request_of(args, request.model, gpu=gpu, gpus=gpus or board.gpus)

    def fastest(one):
        return search_report(one, plan_options(args), args.jobs, 1).best

    gpus = cheapest.candidates(request.money.prices, given.get("gpu"))
    most = given.get("gpus", cheapest.MOST)
    found = cheapest.Cheapest(request_with, fastest, request.money, gpus, most)
    if args.json:
        offers = [offer.to_dict() for offer in found.offers()]
        print(json.dumps({"offers": offers, "best": found.best and found.best.to_dict()}))
        return
    print(cheapest.heading(request))
    for offer in found.offers():
        print(offer, flush=True)
    print(cheapest.verdict(found.best))


def search_report(request, fixed=None, workers=None, top=5) -> SearchReport:
    """Return what a search among the plans of a request finds.

    Parameters
    ----------
    request : Request
        Without a batch: of one sequence a GPU.
    fixed : dict, optional
        Fields of `Plan` that are not searched, and their values.
    workers : int, optional
        Processes; None: as many as `workers_for` says.
    top : int
        Rows of the table.
    """
    request = _with_batch(request)
    request.check_price()
    model = request.model
    if not model.has_sizes:
        _check_options(request)
    jobs, reasons = jobs_of(request, fixed)
    result = search(jobs, reasons, workers or workers_for(request.gpus), top)
    length, _ = model.work
    return SearchReport(
        model_in_words(model), hardware_in_words(request.cluster), _task(request), result,
        request.gpus, request.workload.global_batch * length, baseline(request, result), top,
        request.cost, request.workload.recipe and class_of_recipe(request.workload.recipe),
    )  # fmt: skip


def _task(request):
    """Return in words what the search does not change, and what it does."""
    workload, model = request.workload, request.model
    numbers = ", ".join([request.dtype, *workload.recipe])
    task = f"unchanged: batch {workload.global_batch:,}"
    if not model.has_sizes:
        return (
            f"{task} samples, {numbers}; searched: micro-batch, recomputation, ZeRO stage 0 or 3; "
            "data parallel only"
        )
    task += (
        f" sequences of {model.seq:,} tokens, {numbers}; searched: mesh, micro-batch, "
        "schedule, recomputation, ZeRO stage"
    )
    return task if workload.imbalance == 1 else f"{task}; {routing_in_words(workload.imbalance)}"


def _with_batch(request):
    batch = request.workload.global_batch or request.gpus
    return replace(request, workload=replace(request.workload, global_batch=batch))


def _check_options(request):
    """Refuse given options that no plan of the model can have, whatever the batch."""
    replace(request, workload=replace(request.workload, global_batch=None)).job()


def baseline(request, result):
    """Return the plan by rule of thumb, simulated; None if none of its kind fits.

    Tensor parallel as far as a node reaches, then the smallest pipeline that fits, in micro-batches
    of one sequence, with 1F1B and ZeRO-1; every layer is recomputed only if nothing fits otherwise.
    Of a model that a Python file makes: data parallel alone, by DDP.
    """
    node = request.cluster.gpus_per_node if request.model.has_sizes else 1
    for tp in reversed(range(1, node + 1)):
        jobs, _ = possible(request, _simple_plans(request, tp))
        if jobs:
            tries = (_tried(plan, job, result) for plan, job in jobs.items())
            return next((one for one in tries if one and one.fits), None)
    return None


def _simple_plans(request, tp):
    gpus = request.gpus
    if not request.model.has_sizes:
        yield Plan(shard=0)
        return
    for recompute in ("none", "full"):
        for pp in range(1, gpus // tp + 1):
            yield Plan(tp, pp, recompute=recompute, shard=1 if gpus > tp * pp else 0)


def _tried(plan, job, result):
    """Simulate a plan; return None if it cannot fit or run."""
    known = next((one for one in result.tried if one.plan == plan), None)
    if known:
        return known
    if bounds_of(job).memory > ROOM * job.cluster.gpu.memory or plan in result.too_large:
        return None
    try:
        return Tried(plan, job, simulate(job))
    except PlanError:
        return None


def why(plan, request, report):
    """Return why a plan is not the best: its constraint, its memory, or its time."""
    if plan.shard is None:
        data = request.gpus // (plan.tp * plan.pp)
        plan = replace(plan, shard=0 if data == 1 else plan.zero)
    try:
        job = replace(_with_batch(request), plan=plan).job()
    except PlanError as error:
        return f"{plan} is impossible: {error.reason}\n  {error}"
    least, memory = bounds_of(job).memory, job.cluster.gpu.memory
    if least > memory:
        return f"{plan}: does not fit: needs at least {size(round(least))} of {size(memory)}"
    known = next((one for one in report.search.tried if one.plan == plan), None)
    return explain(report, known or Tried(plan, job, simulate(job)))


def _exported(program, report):
    if report.best is None:
        raise PlanError("no plan fits; leave --export out to see why")
    return flags(program, report.best.plan, report.best.job)
