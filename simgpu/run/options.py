"""The options of ``simgpu run``: those of ``torchrun``, and what is simulated."""

import argparse
import re
from pathlib import Path

from simgpu.command_line import Parser
from simgpu.hardware.default import MAX_DEVICES
from simgpu.network.options import add_machine, machine_cluster
from simgpu.ranks.communication import folding
from simgpu.rates_and_sizes import short_time

# torchrun's options that change nothing for ranks which are threads of one process.
NO_EFFECT = (
    *("rdzv-backend", "rdzv-endpoint", "rdzv-conf", "monitor-interval", "start-method"),
    *("event-log-handler", "log-dir", "redirects", "tee", "duplicate-stdout-filters"),
    *("duplicate-stderr-filters", "node-rank", "local-addr", "logs-specs", "numa-binding"),
    *("signals-to-handle", "shutdown-timeout", "standalone", "run-path"),
)
_FLAGS = {"standalone", "run-path"}  # without a value
LAST_PORT = 65535
_SHORT = {"redirects": "-r", "tee": "-t"}
_REFUSED = {
    "no-python": "ranks are threads of one Python process and cannot run another program; give a "
    "Python script, or -m and a module",
    "virtual-local-rank": "a rank finds its GPU by the number in LOCAL_RANK; leave it out",
}


def make_parser():
    """Return the parser; arguments after the script belong to the script."""
    parser = Parser(
        prog="simgpu run",
        description="Run a torchrun script on simulated GPUs, and report where the time went.",
        epilog="All other options of torchrun are accepted and have no effect, except "
        f"--{' and --'.join(_REFUSED)}. A script that starts its ranks by "
        "torch.multiprocessing.spawn, or as Process, runs once if --nproc-per-node is left out.",
    )
    _add_options_of_torchrun(parser)
    _add_hardware(parser)
    _add_what_is_reported(parser)
    parser.add_argument("script", help="the Python file to run, or after -m the module")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the script")
    return parser


def _add_options_of_torchrun(parser):
    group = parser.add_argument_group("options of torchrun")
    add = group.add_argument
    add(
        "--nproc-per-node", "--nproc_per_node", metavar="K",
        help="number of ranks on each node, each with a simulated GPU; gpu or auto: as many as the "
        "GPU's usual board carries (default: 1)",
    )  # fmt: skip
    add("--nnodes", default="1", metavar="N", help="number of nodes; of 1:4, the most (default: 1)")
    add("-m", "--module", action="store_true", help="run a module, as python -m does")
    add(
        "--max-restarts", "--max_restarts", type=int, default=0, metavar="N",
        help="restart all ranks up to N times if one fails (default: 0)",
    )  # fmt: skip
    add(
        "--local-ranks-filter", "--local_ranks_filter", metavar="0,1,...",
        help="show what these ranks of each node print, and not the others",
    )  # fmt: skip
    add("--master-addr", "--master_addr", default="localhost", help="MASTER_ADDR of the ranks")
    add("--master-port", "--master_port", default="29500", help="MASTER_PORT of the ranks")
    add("--rdzv-id", "--rdzv_id", default="none", help="TORCHELASTIC_RUN_ID of the ranks")
    add("--role", default="default", help="ROLE_NAME of the ranks")
    for name in (*NO_EFFECT, *_REFUSED):
        flags = [f"--{name}", f"--{name.replace('-', '_')}", *filter(None, [_SHORT.get(name)])]
        takes_none = name in _FLAGS or name in _REFUSED
        add(
            *dict.fromkeys(flags), help=argparse.SUPPRESS, default=None,
            action="store_true" if takes_none else "store",
        )  # fmt: skip


def _add_hardware(parser):
    group = parser.add_argument_group("hardware")
    add_machine(group)
    add = group.add_argument
    add(
        "--gpus-per-node", type=int, metavar="K",
        help="GPUs that a script sees which starts its ranks itself (default: a full board)",
    )  # fmt: skip
    add(
        "--host-per-step", metavar="20ms",
        help="what the host does behind each optimizer.step(), such as logging; a GPU goes on with "
        "what it was given (default: nothing)",
    )  # fmt: skip
    add(
        "--slow", action="append", default=[], metavar="RANK:FACTORx",
        help="make all kernels of a rank's GPU slower: --slow 2:1.5x",
    )  # fmt: skip
    add(
        "--slow-card", action="append", default=[], metavar="RANK:FACTORx",
        help="make the network card that a rank uses slower: --slow-card 9:4x",
    )  # fmt: skip
    add(
        "--kill", metavar="RANK@stepN",
        help="kill a rank as it begins its N-th optimizer.step(), counting from 1: --kill 3@step5",
    )  # fmt: skip


def _add_what_is_reported(parser):
    add = parser.add_argument_group("what is simulated, and what is reported").add_argument
    add("--shapes-only", action="store_true", help="simulate time and memory only, without values")
    add(
        "--routing", metavar="HOW",
        help="with --shapes-only, which experts the tokens of a mixture go to: balanced, zipf:1.2 "
        "(expert i gets a share in proportion to 1 / (i + 1)**1.2) or each expert's share, "
        "0.5,0.25,0.25 (default: balanced); if given, argmax and max choose experts, too, not only "
        "topk",
    )  # fmt: skip
    add(
        "--ranks", metavar="0,8,...",
        help="run only these ranks, each in place of all up to the next; auto: find out which; "
        f"needs --shapes-only (default: all, and auto beyond {MAX_DEVICES})",
    )  # fmt: skip
    add("--eager", action="store_true", help="run what the script compiles as eager code")
    add(
        "--steps", type=int, metavar="N",
        help="end each rank when it has made N training steps, calls of an optimizer.step(); three "
        "are enough for a step time",
    )  # fmt: skip
    add(
        "--loader", metavar="WHAT",
        help="measured: let the simulated GPUs wait for the script's DataLoader, as fast as it is "
        "on this machine; 0.8ms: it delivers a batch so often; off: batches take no time, and the "
        "loader is not looked at (default: they take none, and a note says if they would)",
    )  # fmt: skip
    add(
        "--wall-clock", action="store_true",
        help="let time.time(), time.perf_counter(), time.monotonic() and time.sleep() be real; "
        "without it they are those of the rank's simulated host",
    )  # fmt: skip
    add(
        "--per-step", metavar="'N UNIT'",
        help="what all ranks process in one step, for the summary's throughput: '524288 tokens'",
    )  # fmt: skip
    add(
        "--summary", choices=("text", "json"), default="text",
        help="how the summary is printed at the end; json: in one line",
    )  # fmt: skip
    add(
        "--timeline", metavar="FILE", type=Path,
        help=".html: a page that shows one step; .json: the whole run, for Chrome and Perfetto",
    )  # fmt: skip


def notes(args) -> list[str]:
    """Return what the launcher says about its options before the run, a line each.

    Raises
    ------
    ValueError
        If an option of torchrun cannot work here.
    """
    for name, reason in _REFUSED.items():
        if _given(args, name):
            raise ValueError(f"--{name}: {reason}")
    if args.routing is not None and not args.shapes_only:
        raise ValueError(
            f"--routing {args.routing} needs --shapes-only: with values, the router of the "
            "script chooses"
        )
    _check_numbers(args)
    lines = []
    if not args.wall_clock:
        lines.append(
            "time.time() and the like give the rank's simulated clock, --wall-clock the real one"
        )
    idle = [f"--{name}" for name in NO_EFFECT if _given(args, name)]
    if idle:
        lines.append(
            f"without effect here: {', '.join(idle)}; the ranks are threads of one process"
        )
    return lines


def _check_numbers(args):
    for name in ("steps", "gpus_per_node"):
        value = getattr(args, name)
        if value is not None:
            _positive(f"--{name.replace('_', '-')}", value, str(value))
    if args.max_restarts < 0:
        raise ValueError(f"--max-restarts {args.max_restarts}: give zero or more")
    if not args.master_port.isdecimal() or int(args.master_port) > LAST_PORT:
        raise ValueError(f"--master-port {args.master_port!r}: give a number up to {LAST_PORT}")


def _given(args, name):
    return getattr(args, name.replace("-", "_")) not in (None, False)


def num_nodes(args) -> int:
    """Return the number of nodes; of torchrun's ``MIN:MAX``, the most.

    Raises
    ------
    ValueError
        If it is not a positive number.
    """
    least, colon, most = str(args.nnodes).rpartition(":")
    count = _positive("--nnodes", args.nnodes, most)
    if colon and _positive("--nnodes", args.nnodes, least) > count:
        raise ValueError(f"--nnodes {args.nnodes}: give the least number first")
    return count


def ranks_per_node(args) -> int | None:
    """Return the number of ranks on each node; None: one for each GPU of a full board.

    Raises
    ------
    ValueError
        If it is neither a positive number nor a word of torchrun's.
    """
    wanted = args.nproc_per_node
    if wanted in ("gpu", "auto"):
        return None
    return 1 if wanted is None else _positive("--nproc-per-node", wanted, wanted)


def _positive(option, given, number):
    if not re.fullmatch(r"0*[1-9][0-9]*", number):
        also = ", gpu or auto" if option == "--nproc-per-node" else ""
        raise ValueError(f"{option} {given}: give a positive number{also}")
    return int(number)


def cluster_of(args):
    """Return the cluster to simulate.

    Raises
    ------
    ValueError
        If the hardware is unknown, or cannot have that many ranks.
    """
    return machine_cluster(args, ranks_per_node(args), num_nodes(args))


def starts_itself(args, script) -> bool:
    """Return whether a script starts its ranks itself, and so runs once."""
    return args.nproc_per_node is None and (args.gpus_per_node is not None or script.starts_ranks())


def node_of(args):
    """Return the cluster of one node, for a script that starts its ranks itself.

    Raises
    ------
    ValueError
        If the hardware is unknown, or an option makes no sense for such a script.
    """
    for name in ("ranks", "kill", "slow_card", "local_ranks_filter", "max_restarts"):
        if getattr(args, name):
            raise ValueError(
                f"--{name.replace('_', '-')}: this script starts its ranks itself; give "
                "--nproc-per-node to start them as torchrun does"
            )
    if num_nodes(args) > 1:
        raise ValueError(
            f"--nnodes {args.nnodes}: this script starts its ranks itself, and works on one node; "
            "give --nproc-per-node to start them as torchrun does"
        )
    return machine_cluster(args, args.gpus_per_node)


def per_step(args) -> tuple | None:
    """Return how much a step processes, and of what; None without ``--per-step``.

    Raises
    ------
    ValueError
        If it is not a number and a word.
    """
    if args.per_step is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s+(\w+)\s*", args.per_step.replace(",", ""))
    if not found or not float(found[1]):
        raise ValueError(f"--per-step {args.per_step!r}: give a number and a unit: '512 images'")
    return float(found[1]), found[2]


def host_per_step(args) -> float:
    """Return the seconds of ``--host-per-step``.

    Raises
    ------
    ValueError
        If it is no time.
    """
    if args.host_per_step is None:
        return 0.0
    try:
        return short_time(args.host_per_step)
    except ValueError as error:
        raise ValueError(f"--host-per-step: {error}") from None


def spawn_options(args, cluster) -> dict:
    """Return the remaining options of `simgpu.spawn`.

    Raises
    ------
    ValueError
        If ``--ranks`` is invalid.
    """
    ranks = args.ranks
    if ranks is None and args.shapes_only and cluster.world_size > MAX_DEVICES:
        ranks = "auto"
    elif ranks not in (None, "auto"):
        ranks = numbers("--ranks", ranks)
    folding.check_ranks(ranks, cluster.world_size, not args.shapes_only)
    return {"numerics": not args.shapes_only, "ranks": ranks, "routing": args.routing}


def numbers(option, text) -> list[int]:
    """Return the numbers of an option, which are separated by commas.

    Raises
    ------
    ValueError
        If they are not.
    """
    if not all(number.strip().isdecimal() for number in text.split(",")):
        raise ValueError(f"{option} {text or repr(text)}: give numbers separated by commas")
    return [int(number) for number in text.split(",")]
