"""The command ``simgpu plan``: one plan, or with ``--search`` the search for the best."""

import argparse
import warnings

from simgpu.plan import command, options
from simgpu.search.own import print_own
from simgpu.search.run import print_search
from simgpu.search.space import CHOSEN


def main(argv=None) -> int:
    """Print what a plan's step takes, or which plan is the fastest; return the exit code."""
    parser = options.make_parser()
    args = parser.parse_args(argv)
    if not (args.search or args.why or args.export):
        return command.main(argv)
    blank = argparse.Namespace(**dict.fromkeys(CHOSEN))  # options that are not given stay None
    found = vars(parser.parse_args(argv, blank))
    given = {name: found[name] for name in CHOSEN if found[name] is not None}
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    try:
        (print_own if args.model.endswith(".py") else print_search)(args, given)
    except ValueError as error:
        parser.error(str(error))
    return 0
