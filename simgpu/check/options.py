"""The options of ``simgpu check``: those of ``simgpu run``, and what is compared."""

import argparse
import shlex

from simgpu.run import options

STEPS = 5
_OF_RUN = {  # options of `simgpu run` that make no sense here, and what they are without them
    "kill": None, "slow": [], "slow_card": [], "max_restarts": 0, "ranks": None, "timeline": None,
    "loader": None, "per_step": None, "host_per_step": None, "local_ranks_filter": None,
    "summary": "text", "routing": None,
}  # fmt: skip
_HIDDEN = {f"--{name.replace('_', '-')}" for name in _OF_RUN}


def make_parser():
    """Return the parser."""
    parser = options.make_parser()
    parser.prog = "simgpu check"
    parser.usage = (
        "simgpu check SCRIPT --nproc-per-node N [options] [-- arguments of the script]\n"
        "       simgpu check --nproc-per-node N [options] SCRIPT [arguments of the script]"
    )
    parser.description = (
        "Run a script on one simulated GPU and on N, with values, and say what differs and since "
        "which step: losses, gradients, learning rates, examples, types; parameters that drift "
        "apart between ranks; collectives that only some ranks call. Exit code 0: nothing "
        "differs, 1: something does, 2: it could not be run or not be compared."
    )
    parser.epilog = (
        "The global batch must be equal. If a script takes its batch per GPU, say how the run on "
        "one GPU gets all of it: simgpu check train.py --nproc-per-node 4 --one '--batch-size 32' "
        "-- --batch-size 8. Options of torchrun are accepted, and have no effect."
    )
    parser.set_defaults(steps=STEPS)
    for action in parser._actions:
        if _HIDDEN & set(action.option_strings):
            action.help = argparse.SUPPRESS
        elif action.dest == "steps":
            action.help = f"training steps that are compared; 0: all (default: {STEPS})"
        elif action.dest == "shapes_only":
            action.help = "only with --record or --against, where it is the default"
    _add_comparison(parser)
    _add_record(parser)
    return parser


def _add_comparison(parser):
    add = parser.add_argument_group("one GPU against N").add_argument
    add(
        "--one", metavar="'ARGUMENTS'",
        help="what the script gets on one GPU in place of its arguments, so that both runs have "
        "the same global batch (default: the same arguments)",
    )  # fmt: skip
    add(
        "--tolerance", type=float, metavar="SHARE",
        help="losses and gradient norms may differ by this share (default: 20 times what the order "
        "of the examples in a batch changes on one GPU, which is measured, and at least 1e-4, or "
        "1e-2 with 16-bit products; where it cannot be measured, 1e-3 and 3e-2); the gradient of a "
        "single parameter may differ by ten times as much",
    )  # fmt: skip
    add(
        "--any-data", action="store_true",
        help="compare losses and gradients although the runs do not see the same examples, as far "
        "as that is known: a sequence that ranks divide before they call the model",
    )  # fmt: skip
    add(
        "--before", metavar="COMMAND",
        help="a command of the shell before each of the runs, such as 'rm -rf out' for a script "
        "that resumes from what it has written there",
    )  # fmt: skip
    add("--show", action="store_true", help="show what the script prints")
    add("--json", metavar="FILE", help="write the report as JSON, too; -: in place of the text")


def _add_record(parser):
    group = parser.add_argument_group("a run against a record (the script runs on N GPUs alone)")
    what = group.add_mutually_exclusive_group()
    what.add_argument(
        "--record", metavar="FILE",
        help="write the simulated step time, peak memory and bytes sent in a step",
    )  # fmt: skip
    what.add_argument(
        "--against", metavar="FILE", help="compare them with a record; exit code 1 if any has grown"
    )
    group.add_argument(
        "--growth", type=float, metavar="PERCENT", default=0.1,
        help="by how much they may grow; the numbers are the same in every run (default: 0.1)",
    )  # fmt: skip
    group.add_argument(
        "--with-values", action="store_true",
        help="compute values, for scripts that cannot do without (default: as --shapes-only)",
    )  # fmt: skip


def parse(parser, argv):
    """Return the options; if the script is the first word, options follow it.

    Raises
    ------
    SystemExit
        If they are wrong.
    """
    words, of_script = list(argv), []
    if "--" in words:
        i = words.index("--")
        words, of_script = words[:i], words[i + 1 :]
    if words and not words[0].startswith("-"):
        words = [*words[1:], words[0]]
        parser.remedy = f"; what {words[-1]} takes stands behind --, after all options"
    args = parser.parse_args(words)
    args.args += of_script
    foreign = [name for name, unset in _OF_RUN.items() if getattr(args, name) != unset]
    if foreign:
        parser.error(f"--{foreign[0].replace('_', '-')} belongs to simgpu run; leave it out")
    if args.steps < 0:
        parser.error(f"--steps {args.steps}: give a positive number, or 0 for all")
    if args.tolerance is not None and args.tolerance < 0:
        parser.error(f"--tolerance {args.tolerance:g}: give a share of at least 0, such as 1e-3")
    if args.growth < 0:
        parser.error(f"--growth {args.growth:g}: give a percentage of at least 0")
    args.steps = args.steps or None
    is_record = args.record is not None or args.against is not None
    if args.shapes_only and not is_record:
        parser.error("--shapes-only: what is compared are values; leave it out")
    for name in ("one", "before"):
        if is_record and getattr(args, name) is not None:
            parser.error(f"--{name}: with --record or --against the script runs on N GPUs alone")
    args.shapes_only = is_record and not args.with_values
    return args


def on_one_gpu(args, starts_itself):
    """Return the options of the run on one GPU."""
    one = argparse.Namespace(**vars(args))
    one.nnodes = "1"
    if starts_itself:
        one.gpus_per_node = 1
    else:
        one.nproc_per_node = "1"
    if args.one is not None:
        one.args = shlex.split(args.one)
    return one
