"""The command ``simgpu plan``: what it does with its options."""

import json

from simgpu.command_line import Progress
from simgpu.plan.options import make_parser
from simgpu.plan.plans import check_positive
from simgpu.plan.report import report_of
from simgpu.plan.request import request_of
from simgpu.plan.simulate import parts


def main(argv, search) -> int:
    """Print what a plan's step takes, or what a search finds; return the exit code.

    Parameters
    ----------
    argv : list of str
    search : callable
        ``search(request, args)`` prints the fastest plans, or the cheapest run: that of
        `simgpu.search`, a layer above.
    """
    parser = make_parser()
    args = parser.parse_args(argv)
    try:
        for name in ("top", "jobs"):
            check_positive(name, getattr(args, name))
        request = request_of(args)
        if args.search or args.why or args.export or args.cheapest:
            search(request, args)
        else:
            with Progress("part", parts):
                report = report_of(request)
            print(json.dumps(report.to_dict()) if args.json else report)
    except ValueError as error:
        parser.error(str(error))
    return 0
