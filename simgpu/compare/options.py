"""The options of ``simgpu compare``: those of a plan, and what the run reached."""

from simgpu.plan import options


def make_parser():
    """Return the parser."""
    parser = options.make_parser(plans=False)
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
