"""The command ``simgpu compare``: what it does with its options."""

import json

from simgpu.compare.comparison import compare_run
from simgpu.compare.verdict import REACHED
from simgpu.plan.options import make_parser, request_of
from simgpu.plan.step.job import PlanError

_OF_PLAN = "search", "why", "export", "cheapest", "prices", "tokens", "within"


def compare_parser():
    """Return the parser: that of ``simgpu plan``, and what the run reached."""
    parser = make_parser()
    parser.prog = "simgpu compare"
    parser.description = "Compare a run with published ones, and with what is simulated for it."
    reached = parser.add_argument_group("what the run reaches").add_mutually_exclusive_group(
        required=True
    )
    add = reached.add_argument
    add("--tokens-per-second", type=float, metavar="N", help="of all GPUs")
    add("--step-time", type=float, metavar="SECONDS")
    add("--mfu", type=float, metavar="PERCENT", help="without recomputation")
    parser.add_argument(
        "--try", dest="changes", action="store_true", default=False,
        help="simulate changes of the options, too; this takes several times as long",
    )  # fmt: skip
    return parser


def main(argv=None) -> int:
    """Print the comparison; return the exit code."""
    parser = compare_parser()
    args = parser.parse_args(argv)
    try:
        foreign = [name for name in _OF_PLAN if getattr(args, name, None)]
        if foreign:
            raise PlanError(f"--{foreign[0]} belongs to simgpu plan; leave it out")
        reached = {name: value for name, value in vars(args).items() if name in REACHED}
        comparison = compare_run(request_of(args), reached, args.changes)
    except ValueError as error:
        parser.error(str(error))
    print(json.dumps(comparison.to_dict()) if args.json else comparison)
    return 0
