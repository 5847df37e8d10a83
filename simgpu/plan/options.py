"""The options of ``simgpu plan``, and the job that they describe."""

import argparse
import math
from dataclasses import replace

from simgpu.network.cluster import usual_network
from simgpu.network.options import add_machine, gpu_and_link, gpus_on_board, machine_cluster
from simgpu.plan.presets import PRESETS
from simgpu.plan.step.experts import most_imbalance
from simgpu.plan.step.job import Job, PlanError, Program

SHARDS = ("none", "optimizer", "grad_op", "full")  # by ZeRO's stage
RECOMPUTE = {
    "none": "none", "core_attn": "attention", "selective": "products", "full": "full",
}  # fmt: skip
SCHEDULES = ("1f1b", "gpipe", "interleaved")
PER_STAGE = 4  # micro-batches for each stage, if no batch is given
DTYPES = ("bfloat16", "float16", "float8")


def make_parser():
    """Return the parser."""
    parser = argparse.ArgumentParser(
        prog="simgpu plan",
        description="Simulate a training step of a model on many GPUs, and say how long it takes, "
        "what memory it needs, and what limits it.",
        epilog=f"Presets: {', '.join(PRESETS)}. A .json file has the fields of a Hugging Face "
        "configuration (hidden_size, num_attention_heads, num_hidden_layers, "
        "max_position_embeddings, vocab_size, ...). A .py file defines model(), which returns a "
        "torch.nn.Module (it is called on the device meta), and batch(size), which returns the "
        "tensor, or the tuple of tensors, of a micro-batch of that size; the loss is the output, "
        "or its .loss, summed. It is trained as it is, data parallel (--shard 0 or 3); --search "
        "chooses its micro-batch, recomputation (none or full) and --shard (0 or 3) alone.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="a preset, a .json file, or a .py file (see below)")
    add("--json", action="store_true", help="print all numbers as JSON")
    hardware = parser.add_argument_group(
        "hardware", "Without --network, nodes are joined as they usually are with that link."
    )
    add_machine(hardware)
    add = hardware.add_argument
    add("--gpus", type=int, default=8, metavar="N", help="in all (default: 8)")
    add("--gpus-per-node", type=int, metavar="K", help="default: a full board, at most --gpus")
    add = parser.add_argument_group("how the work is split").add_argument
    for name, what in (
        ("tp", "tensor parallel ranks, with sequence parallelism"),
        ("pp", "pipeline parallel ranks"),
        ("cp", "context parallel ranks"),
        ("ep", "expert parallel ranks"),
    ):  # fmt: skip
        add(f"--{name}", type=int, default=1, metavar="N", help=f"{what} (default: 1)")
    add(
        "--etp", type=int, metavar="N",
        help="ranks that split each expert; with 1, expert parallel ranks are tensor parallel ones "
        "of the other layers, too (default: --tp)",
    )  # fmt: skip
    add(
        "--imbalance", type=float, default=1.0, metavar="F",
        help="tokens of the busiest of the expert parallel ranks over their mean (default: 1)",
    )  # fmt: skip
    add(
        "--shard", type=int, choices=range(4), metavar="0..3",
        help="ZeRO's stage: 1 optimiser's state, 2 and gradients, 3 and parameters (default: 3 "
        "without --tp, --pp and --ep, else 1)",
    )  # fmt: skip
    add("--schedule", choices=SCHEDULES, default="1f1b", help="of the pipeline (default: 1f1b)")
    add("--chunks", type=int, metavar="V", help="stages a rank, interleaved (default: 2)")
    add = parser.add_argument_group("what is computed").add_argument
    add("--micro-batch", type=int, default=1, metavar="N", help="sequences at once (default: 1)")
    add(
        "--global-batch", "--batch", type=int, metavar="N",
        help=f"sequences a step (default: one micro-batch a replica, {PER_STAGE} for each stage)",
    )  # fmt: skip
    add("--sequence", type=int, metavar="N", help="tokens a sequence (default: the model's)")
    add(
        "--recompute", choices=(*RECOMPUTE,), default="none",
        help="full: all of a layer; selective, as in torchtitan (option op): all but attention and "
        "every second product; core_attn, what Megatron calls selective: attention alone, fused "
        "or not (default: none)",
    )  # fmt: skip
    add("--dtype", choices=DTYPES, help="default: bfloat16 if the GPU has it, else float16")
    add("--compiled", action="store_true", help="chains of pointwise operations are one kernel")
    _add_search(parser)
    return parser


def _add_search(parser):
    add = parser.add_argument_group(
        "search",
        "Options above that say how the work is split, micro-batch and recomputation stay as they "
        "are if they are given; the others are searched: of a .py file micro-batch, recomputation "
        "and ZeRO stage 0 or 3, data parallel only. Batch (default: one sequence a GPU), "
        "length of sequences and numbers are never changed.",
    ).add_argument
    add("--search", action="store_true", help="find the fastest plan that fits, and print the best")
    add("--top", type=int, default=5, metavar="N", help="plans in the table (default: 5)")
    add(
        "--why", metavar="PLAN",
        help="why a plan is not the best, such as tp8,pp4,mb2,recompute=full (implies --search)",
    )  # fmt: skip
    add(
        "--export", choices=("torchtitan", "megatron"),
        help="print the flags of the best plan for that program (implies --search)",
    )  # fmt: skip
    add(
        "--jobs", type=int, metavar="N",
        help="processes that search (default: one, from 64 GPUs on one for each core, at most 8)",
    )  # fmt: skip


def cluster_of(args):
    """Return the cluster that the options describe; raise `ValueError` if there is none."""
    if args.gpus < 1:
        raise PlanError(f"--gpus {args.gpus}: give a whole number from 1 on")
    each = args.gpus_per_node or min(gpus_on_board(args), args.gpus)
    if each < 1 or args.gpus % each:
        raise PlanError(
            f"--gpus {args.gpus} does not fill nodes of {each}; give a multiple, or --gpus-per-node"
        )
    nodes = args.gpus // each
    network = usual_network(gpu_and_link(args)[1]) if nodes > 1 else None
    return machine_cluster(args, each, nodes, network)


def dtype_of(args, gpu):
    """Return the name of the type of products."""
    if args.dtype is None:
        return "bfloat16" if gpu.flops["bfloat16"] > gpu.flops["float32"] else "float16"
    if args.dtype not in gpu.flops:
        known = ", ".join(name for name in DTYPES if name in gpu.flops)
        raise PlanError(f"--dtype {args.dtype}: {gpu.name} has no such units; give {known}")
    return args.dtype


def data_parallel(args):
    """Return how many ranks share the work of data, contexts and experts."""
    for name in ("tp", "pp", "cp", "ep", "etp", "micro_batch"):
        if (1 if getattr(args, name) is None else getattr(args, name)) < 1:
            option = name.replace("_", "-")
            raise PlanError(f"--{option} {getattr(args, name)}: give a whole number from 1 on")
    size = args.tp * args.pp * args.cp
    if args.gpus % size:
        raise PlanError(
            f"--tp {args.tp} x --pp {args.pp} x --cp {args.cp} = {size} does not divide --gpus "
            f"{args.gpus}; give {size * -(-args.gpus // size)} GPUs, or other degrees"
        )
    data = args.gpus // (args.tp * args.pp)
    split = args.etp or args.tp
    if data * args.tp % (args.ep * split):
        raise PlanError(
            f"--ep {args.ep}: {args.ep} groups of {split} ranks, which split an expert (--etp), do "
            f"not divide the {data * args.tp} ranks of a pipeline stage (--gpus / --pp); give "
            "another --ep or --etp"
        )
    return data


def job_of(args, model) -> Job:
    """Return the job that the options describe.

    Raises
    ------
    PlanError
        If options do not fit each other; the message names them and the remedy.
    """
    cluster, data = cluster_of(args), data_parallel(args)
    model = with_sequence(model, args)
    chunks = _chunks(args)
    check_imbalance(args, model)
    _check_divisible(args, model, chunks)
    count = micro_batches(args, data // args.cp)
    dtype = dtype_of(args, cluster.gpu)
    apart = args.tp > 1 or args.pp > 1 or args.ep > 1 or args.etp is not None
    shard = SHARDS[(1 if apart else 3) if args.shard is None else args.shard]
    program = Program(
        shard, RECOMPUTE[args.recompute], sequence_parallel=args.tp > 1, compiled=args.compiled,
        float8=dtype == "float8", chunks=chunks,
        schedule="gpipe" if args.schedule == "gpipe" else "1f1b",
        dtype="float16" if dtype == "float16" else "bfloat16", imbalance=args.imbalance,
    )  # fmt: skip
    return Job(
        model, program, cluster, args.tp, data, args.pp, args.micro_batch, count, args.cp,
        args.ep, args.etp,
    )  # fmt: skip


def with_sequence(model, args):
    """Return the model with the length of sequences that the options ask for."""
    if args.sequence is None:
        return model
    if args.sequence < 1:
        raise PlanError(f"--sequence {args.sequence}: give a whole number from 1 on")
    return replace(model, seq=args.sequence)


def _chunks(args):
    if args.schedule != "interleaved":
        if args.chunks is not None:
            raise PlanError(f"--chunks {args.chunks} needs --schedule interleaved")
        return 1
    if args.pp == 1:
        raise PlanError("--schedule interleaved needs --pp 2 or more")
    chunks = 2 if args.chunks is None else args.chunks
    if chunks < 2:
        raise PlanError(f"--chunks {chunks}: give 2 or more")
    return chunks


def check_imbalance(args, model):
    """Refuse an imbalance that no routing can have, or that changes nothing."""
    given = args.imbalance
    if not 1 <= given < math.inf:
        raise PlanError(f"--imbalance {given:g}: give a number from 1 (balanced) on")
    if given == 1:
        return
    if not model.experts:
        raise PlanError(f"--imbalance {given:g}: {args.model} has no experts; leave it out")
    if args.search:
        return  # each plan has what its ranks can have at most
    if args.ep == 1:
        raise PlanError(
            f"--imbalance {given:g} needs --ep 2 or more: every rank has all experts, so none gets "
            "more tokens than the others"
        )
    most = most_imbalance(model, args.ep)
    if given > most:
        raise PlanError(
            f"--imbalance {given:g}: a token goes to {model.active} of {model.experts} experts, so "
            f"the busiest of {args.ep} ranks has at most {most:g} times the mean; give 1 to "
            f"{most:g}"
        )


def _check_divisible(args, model, chunks):
    experts = (("experts", model.experts, args.ep, "--ep"),) if args.ep > 1 else ()
    for name in ("ep", "etp"):
        if (getattr(args, name) or 1) > 1 and not model.experts:
            raise PlanError(
                f"--{name} {getattr(args, name)}: {args.model} has no experts; leave it out"
            )
    if args.etp and model.width % args.etp:
        raise PlanError(
            f"--etp {args.etp} does not divide an expert's {model.width} columns; give a divisor"
        )
    stages = "--pp" if chunks == 1 else "--pp times --chunks"
    for what, count, parts, option in (
        ("heads", model.heads, args.tp, "--tp"),
        ("heads of keys and values", model.keys, args.tp, "--tp"),
        ("layers", model.layers, args.pp * chunks, stages),
        ("positions", model.seq, args.tp * args.cp, "--tp times --cp"),
        *experts,
    ):
        if count % parts:
            fits = ", ".join(str(n) for n in range(1, min(count, 128) + 1) if count % n == 0)
            raise PlanError(
                f"{count} {what} cannot be split in {parts} ({option}); give one of {fits}"
            )


def micro_batches(args, replicas):
    """Return how many micro-batches each replica has in a step."""
    unit = replicas * args.micro_batch
    if args.global_batch is None:
        return PER_STAGE * args.pp if args.pp > 1 else 1
    count, rest = divmod(args.global_batch, unit)
    if rest or count < 1:
        raise PlanError(
            f"--global-batch {args.global_batch} is no multiple of {unit}: {replicas} replicas x "
            f"--micro-batch {args.micro_batch}; give {unit * max(count + (rest > 0), 1)}"
        )
    if args.pp > 1 and args.schedule != "gpipe" and count < args.pp:
        raise PlanError(
            f"--schedule {args.schedule} needs {args.pp} micro-batches, one for each stage (--pp "
            f"{args.pp}), and --global-batch {args.global_batch} gives {count}; give "
            f"--global-batch {unit * args.pp}, or --schedule gpipe"
        )
    if args.schedule == "interleaved" and count % args.pp:
        raise PlanError(
            f"--schedule interleaved needs a multiple of {args.pp} micro-batches (--pp), and "
            f"--global-batch {args.global_batch} gives {count}; give "
            f"--global-batch {unit * args.pp * -(-count // args.pp)}"
        )
    return count
