"""The command ``simgpu compare``: what it does with its options."""

import json

from simgpu.command_line import Progress
from simgpu.compare.comparison import compare_run
from simgpu.compare.options import make_parser
from simgpu.compare.verdict import REACHED
from simgpu.plan.request import request_of
from simgpu.plan.simulate import parts


def main(argv=None) -> int:
    """Print the comparison; return the exit code."""
    parser = make_parser()
    args = parser.parse_args(argv)
    try:
        reached = {name: value for name, value in vars(args).items() if name in REACHED}
        request = request_of(args)
        with Progress("part", parts):
            comparison = compare_run(request, reached, args.changes)
    except ValueError as error:
        parser.error(str(error))
    print(json.dumps(comparison.to_dict()) if args.json else comparison)
    return 0
