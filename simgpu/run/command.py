"""The command ``simgpu run``: its options and its steps."""

import argparse
import sys
from pathlib import Path

import simgpu as sim
from simgpu.network import NETWORKS, build_cluster
from simgpu.ranks.communication import folding
from simgpu.run import page
from simgpu.run.cuda.spelling import cuda_spelling, lines_with_cuda
from simgpu.run.cuda.tracing import NOTE
from simgpu.run.script import Script
from simgpu.run.steps import Steps
from simgpu.run.summary import summarize


def main(argv=None) -> int:
    """Run a script on simulated GPUs; return the exit code."""
    parser = make_parser()
    args = parser.parse_args(argv)
    try:
        cluster = cluster_of(args)
        options = options_of(args, cluster)
        page.check(args.timeline)
        script = Script(args.script, args.args)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    with cuda_spelling(bool(lines_with_cuda(args.script))) as compiled, Steps() as steps:
        code = script.run(cluster, **options)
    sys.stdout.flush()
    return code or report(args, cluster, steps, compiled.used)


def make_parser():
    """Return the parser; arguments after the script belong to the script."""
    parser = argparse.ArgumentParser(
        prog="simgpu run",
        description="Run a torchrun script on simulated GPUs, and report where the time went.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--nproc-per-node", "--nproc_per_node", type=int, default=1, metavar="K",
        help="number of ranks on each node, each with a simulated GPU (default: 1)",
    )  # fmt: skip
    add("--nnodes", type=int, default=1, metavar="N", help="number of nodes (default: 1)")
    add("--network", help=f"network between nodes: {', '.join(NETWORKS)}")
    add("--gpu", help=f"{', '.join(sim.GPUS)} or a .json file (default: a100)")
    add("--link", help=f"{', '.join(sim.LINKS)} (default: the usual one of the GPU)")
    add("--shapes-only", action="store_true", help="simulate time and memory only, without values")
    add(
        "--ranks", metavar="0,8,...",
        help="run only these ranks, each in place of all up to the next; needs --shapes-only",
    )  # fmt: skip
    add(
        "--timeline", metavar="FILE", type=Path,
        help=".html: a page that shows one step; .json: the whole run, for Chrome and Perfetto",
    )  # fmt: skip
    add(
        "--standalone", action="store_true",
        help="accepted and ignored, as are torchrun's --rdzv-... options: ranks here need no "
        "rendezvous",
    )  # fmt: skip
    for name in ("backend", "endpoint", "id"):
        add(f"--rdzv-{name}", f"--rdzv_{name}", help=argparse.SUPPRESS)
    add("script", help="the Python file to run")
    add("args", nargs=argparse.REMAINDER, help="arguments of the script")
    return parser


def cluster_of(args):
    """Return the cluster to simulate.

    Raises
    ------
    ValueError
        If the hardware is unknown, or cannot have that many ranks.
    """
    for name in ("nproc_per_node", "nnodes"):
        if getattr(args, name) < 1:
            raise ValueError(
                f"--{name.replace('_', '-')} {getattr(args, name)}: give a positive number"
            )
    world_size = args.nnodes * args.nproc_per_node
    return build_cluster(world_size, args.gpu, args.link, args.nnodes, args.network)


def options_of(args, cluster) -> dict:
    """Return the remaining options of `simgpu.spawn`.

    Raises
    ------
    ValueError
        If ``--ranks`` is invalid.
    """
    ranks = args.ranks
    if ranks is not None:
        if not all(number.strip().isdecimal() for number in ranks.split(",")):
            raise ValueError(f"--ranks {ranks}: give numbers separated by commas")
        ranks = [int(number) for number in ranks.split(",")]
    folding.check_ranks(ranks, cluster.world_size, not args.shapes_only)
    return {"numerics": not args.shapes_only, "ranks": ranks}


def report(args, cluster, steps, compiled=False) -> int:
    """Print where the time went, and write the timeline; return the exit code."""
    spans = sim.trace()
    if not any(span.engine == "compute" for span in spans):
        return _report_nothing(args.script)
    text = str(summarize(spans, steps, cluster))
    if compiled:
        text += f"\nnote: {NOTE}"
    if args.timeline:
        page.write(args.timeline, spans, steps, f"{Path(args.script).name}\n\n{text}")
    print(text)
    return 0


def _report_nothing(script):
    """Report that no simulated GPU was used."""
    print(
        f"simgpu run: {Path(script).name} used no simulated GPU: take the device from 'cuda' or "
        "torch.accelerator.current_accelerator()",
        file=sys.stderr,
    )
    return 0
