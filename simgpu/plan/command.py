"""The command ``simgpu plan``: what it does with its options."""

import json
import warnings

from simgpu.plan import options, user_model
from simgpu.plan.errors import MEMORY_SPLIT, band_of
from simgpu.plan.model_file import find_model
from simgpu.plan.report import Report
from simgpu.plan.simulate import simulate
from simgpu.plan.step.job import PlanError
from simgpu.units import number, size

BALANCED = "every expert gets as many tokens as the others"


def main(argv=None) -> int:
    """Print what a plan's step takes; return the exit code."""
    parser = options.make_parser()
    args = parser.parse_args(argv)
    try:
        report = report_of(args)
    except ValueError as error:
        parser.error(str(error))
    print(json.dumps(report.to_dict()) if args.json else report)
    return 0


def report_of(args) -> Report:
    """Return the report of a plan."""
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    return plan_own(args) if args.model.endswith(".py") else plan(args)


def plan(args) -> Report:
    """Return the report of a transformer: a preset, or a file of sizes."""
    job = options.job_of(args, find_model(args.model))
    found = simulate(job)
    gpu, model = job.cluster.gpu, job.model
    dtype = "float8" if job.program.float8 else job.program.dtype
    peak, gpus = gpu.flops[dtype], job.cluster.world_size
    flops = model.flops(job.sequences)
    return Report(
        model=f"{args.model}, {parameters_in_words(model.parameters)} parameters, "
        f"sequences of {model.seq:,} tokens",
        hardware=hardware_in_words(job.cluster), program=_program(job, args),
        step_time_seconds=found.seconds, tokens_per_step=job.sequences * model.seq, unit="tokens",
        gpus=gpus, mfu_share=flops / (gpus * peak * found.seconds), peak_flop_per_second=peak,
        dtype=dtype, parameters=model.parameters, peak_memory_bytes=found.memory,
        peak_reserved_bytes=found.reserved, gpu_memory_bytes=gpu.memory, time_shares=_shares(found),
        uncounted_memory_bytes=found.uncounted, error_of_time=band_of(model.experts, args.cp),
        notes=(*_memory_of_splits(job, found), *(
            [routing_in_words(args.imbalance)] if model.experts else []
        )),
        imbalance=args.imbalance if model.experts else None,
    )  # fmt: skip


def plan_own(args) -> Report:
    """Return the report of a model that a Python file makes."""
    for name in ("tp", "pp", "cp", "ep"):
        if getattr(args, name) != 1:
            raise PlanError(
                f"--{name} {getattr(args, name)} cannot split {args.model}, which says itself what "
                "it computes; leave it out, or describe the sizes in a .json file"
            )
    refuse_imbalance(args)
    if args.sequence is not None:
        raise PlanError(f"--sequence {args.sequence}: batch(size) in {args.model} says how long")
    if args.shard in (1, 2):
        raise PlanError(f"--shard {args.shard} comes later for a .py file; give 0 or 3")
    if args.recompute not in ("none", "full"):
        raise PlanError(
            f"--recompute {args.recompute} comes later for a .py file; give full or none"
        )
    cluster = options.cluster_of(args)
    dtype = options.dtype_of(args, cluster.gpu)
    if dtype == "float8":
        raise PlanError("--dtype float8 comes later for a .py file; give bfloat16")
    count = options.micro_batches(args, options.data_parallel(args))
    make, batch = user_model.load(args.model)
    parameters, tokens = user_model.describe(make, batch, args.micro_batch)
    shard = "none" if args.shard == 0 else "full"
    job = user_model.OwnJob(
        make, batch, cluster, shard, args.recompute == "full", dtype, args.micro_batch, count
    )
    found, flops = user_model.simulate(job)
    peak, gpus = cluster.gpu.flops[dtype], cluster.world_size
    return Report(
        model=f"{args.model}, {parameters_in_words(parameters)} parameters",
        hardware=hardware_in_words(cluster),
        program=f"{'FSDP2' if shard == 'full' else 'DDP'}, {dtype}, recompute {args.recompute}, "
        f"{count} x micro-batch {args.micro_batch} on each of {gpus} GPUs",
        step_time_seconds=found.seconds,
        tokens_per_step=gpus * count * (tokens or args.micro_batch),
        unit="tokens" if tokens else "samples", gpus=gpus,
        mfu_share=flops / (gpus * peak * found.seconds), peak_flop_per_second=peak, dtype=dtype,
        parameters=parameters, peak_memory_bytes=found.memory,
        peak_reserved_bytes=found.reserved, gpu_memory_bytes=cluster.gpu.memory,
        time_shares=_shares(found), uncounted_memory_bytes=found.uncounted,
        error_of_time=band_of(None),
    )  # fmt: skip


def _memory_of_splits(job, found):
    """Say how much more memory published jobs took whose layers or stack were split."""
    if job.tensor == job.pipeline == 1:
        return []
    return [
        "published peaks of jobs with tensor parallelism or pipelines were up to "
        f"{MEMORY_SPLIT:g} times the predicted ones: here up to {size(MEMORY_SPLIT * found.memory)}"
    ]


def routing_in_words(imbalance):
    """Return what is assumed of the tokens of experts."""
    if imbalance == 1:
        return BALANCED
    return (
        f"assumed: the busiest of the ranks among which experts are split gets {imbalance:g} times "
        "the mean's tokens, in every layer and micro-batch; time and memory are that rank's"
    )


def refuse_imbalance(args):
    """Refuse an imbalance for a model that a Python file makes."""
    if args.imbalance != 1:
        raise PlanError(
            f"--imbalance {args.imbalance:g}: {args.model} routes its tokens itself; leave it out"
        )


def _shares(found):
    return {cause: seconds / found.seconds for cause, seconds in found.causes.items()}


def parameters_in_words(parameters):
    """Return a number of parameters in words."""
    for power, name in ((1e9, "billion"), (1e6, "million")):
        if parameters >= power:
            return f"{number(parameters / power)} {name}"
    return number(parameters)


def hardware_in_words(cluster):
    """Return a cluster in words."""
    text = f"{cluster.gpus_per_node} x {cluster.gpu.name} on {cluster.link.name}"
    if cluster.nodes > 1:
        text = f"{cluster.nodes} nodes of {text}, joined by {cluster.network.name}"
    return text


def _program(job, args):
    program = job.program
    degrees = {
        "TP": job.tensor, "PP": job.pipeline, "CP": job.context, "EP": job.expert,
        "DP": job.replicas,
    }  # fmt: skip
    split = " ".join(f"{name} {count}" for name, count in degrees.items() if count > 1)
    split += f" ETP {job.expert_split}" if job.expert_split != job.tensor else ""
    stage = options.SHARDS.index(program.shard)
    words = [split or "one GPU", f"ZeRO stage {stage}" if job.data > 1 else ""]
    if job.pipeline > 1:
        chunks = f" with {program.chunks} stages a rank" if program.chunks > 1 else ""
        words.append(f"schedule {args.schedule}{chunks}")
    words += [f"recompute {args.recompute}", f"batch {job.sequences}: {job.micro_batches} x "
              f"micro-batch {job.micro_batch} on {job.replicas} replicas"]  # fmt: skip
    return ", ".join(word for word in words if word)
