"""The command: its options, and what it does one after the other."""

import argparse
import sys
from pathlib import Path

import simgpu as sim
from simgpu import naming
from simgpu.network import NETWORKS, build_cluster
from simgpu.ranks.communication import folding
from simgpu.run import page
from simgpu.run.cuda import lines_with_cuda, no_cuda
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
    naming.take_slot()
    with no_cuda(), Steps() as steps:
        code = script.run(cluster, **options)
    sys.stdout.flush()
    return code or report(args, cluster, steps)


def make_parser():
    """Return the parser; what follows the script is the script's own."""
    parser = argparse.ArgumentParser(
        prog="simgpu run",
        description="Run a script for torchrun on simulated GPUs, and say what its time went on.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--nproc-per-node", "--nproc_per_node", type=int, default=1, metavar="K",
        help="how many ranks on each node, every one with a simulated GPU (default: 1)",
    )  # fmt: skip
    add("--nnodes", type=int, default=1, metavar="N", help="how many nodes (default: 1)")
    add("--network", help=f"what joins several nodes: {', '.join(NETWORKS)}")
    add("--gpu", help=f"{', '.join(sim.GPUS)} or a .json file (default: a100)")
    add("--link", help=f"{', '.join(sim.LINKS)} (default: the usual one of the GPU)")
    add("--shapes-only", action="store_true", help="compute no values, only times and memory")
    add(
        "--ranks", metavar="0,8,...",
        help="run these alone, each for all up to the next one; needs --shapes-only",
    )  # fmt: skip
    add(
        "--timeline", metavar="FILE", type=Path,
        help=".html: a page that shows one step; .json: the whole run, for Chrome and Perfetto",
    )  # fmt: skip
    add(
        "--standalone", action="store_true",
        help="may stay from torchrun's command, and so may its --rdzv-... options: these ranks "
        "need no place to meet",
    )  # fmt: skip
    for name in ("backend", "endpoint", "id"):
        add(f"--rdzv-{name}", f"--rdzv_{name}", help=argparse.SUPPRESS)
    add("script", help="the Python file to run")
    add("args", nargs=argparse.REMAINDER, help="of the script")
    return parser


def cluster_of(args):
    """Return the cluster to simulate.

    Raises
    ------
    ValueError
        If there is no such hardware, or not as much of it.
    """
    for name in ("nproc_per_node", "nnodes"):
        if getattr(args, name) < 1:
            raise ValueError(
                f"--{name.replace('_', '-')} {getattr(args, name)}; give a number from 1 on"
            )
    world_size = args.nnodes * args.nproc_per_node
    return build_cluster(world_size, args.gpu, args.link, args.nnodes, args.network)


def options_of(args, cluster) -> dict:
    """Return what else `simgpu.spawn` is told.

    Raises
    ------
    ValueError
        If the ranks that shall run cannot.
    """
    ranks = args.ranks
    if ranks is not None:
        if not all(number.strip().isdecimal() for number in ranks.split(",")):
            raise ValueError(f"--ranks {ranks}; give numbers with commas between them")
        ranks = [int(number) for number in ranks.split(",")]
    folding.check_ranks(ranks, cluster.world_size, not args.shapes_only)
    return {"numerics": not args.shapes_only, "ranks": ranks}


def report(args, cluster, steps) -> int:
    """Print what the time went on, and write the timeline; return the exit code."""
    spans = sim.trace()
    if not any(span.engine == "compute" for span in spans):
        return _report_nothing(args.script)
    text = str(summarize(spans, steps, cluster))
    if args.timeline:
        page.write(args.timeline, spans, steps, f"{Path(args.script).name}\n\n{text}")
    print(text)
    return 0


def _report_nothing(script):
    """Say that no simulated GPU was used; an error if the script may have looked for a real one."""
    lines = lines_with_cuda(script)
    hint = f"; {lines[0]} looks for CUDA" if lines else ""
    print(
        f"simgpu run: {Path(script).name} used no simulated GPU{hint}: take the device from "
        "torch.accelerator.current_accelerator()",
        file=sys.stderr,
    )
    return 1 if lines else 0
