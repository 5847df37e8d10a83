"""Recognise collectives in a profiler's trace, and read their arguments."""

import re

from simgpu.timeline.files import clean

# Collectives that run on the host; NCCL's annotations only enclose the launch of its kernels.
_HOST_LIBRARY = re.compile(r"(gloo|mpi|ucc|xccl|oneccl|ccl|hccl)::?")
_LIBRARY = re.compile(r"nccl|rccl|msccl|oneccl|xccl|hccl|nvshmem", re.IGNORECASE)
_COLLECTIVE = re.compile(
    r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|cross_device_reduce", re.IGNORECASE
)
_ITEM_SIZES = {
    "bool": 1, "byte": 1, "char": 1, "short": 2, "half": 2, "bfloat16": 2, "int": 4, "float": 4,
    "long": 8, "double": 8, "uint16": 2, "uint32": 4, "uint64": 8, "complexhalf": 4,
    "complexfloat": 8, "complexdouble": 16,
}  # fmt: skip


def host_library(name):
    """Return the library ("gloo") of a host operation that is a collective, else None."""
    found = _HOST_LIBRARY.match(name)
    return found and found[1]


def library_of(name, args=()):
    """Return the library of a communication kernel ("nccl", or "comm" if unknown), else None."""
    function = re.split(r"[<(]", name, maxsplit=1)[0]
    found = _LIBRARY.search(function)
    if found:
        return found[0].lower()
    if "Collective name" in args:
        return "comm"
    # The names of the compiler's fused kernels list all the operations that were fused.
    generated = function.startswith("triton_")
    return "comm" if _COLLECTIVE.search(function) and not generated else None


def collective_of(args):
    """Return bytes, collective, group and ranks from a kernel's arguments; 0 or "" if missing."""
    dtype = args.get("dtype")
    size = _item_size(dtype) if isinstance(dtype, str) else 0
    items = max(count(args.get("In msg nelems")), count(args.get("Out msg nelems")))
    group = args.get("Process Group Description") or args.get("Process Group Name")
    return (
        size * items or count(args.get("bytes")),
        _text(args.get("Collective name")),
        _text(group),
        count(args.get("Group size")),
    )


def count(value):
    """Return a count from a trace; 0 if it is missing or invalid."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value):
        return int(value)
    if type(value) in (int, float) and 0 <= value < 2**63:
        return int(value)
    return 0


def _item_size(dtype):
    return 1 if dtype.lower().startswith("float8") else _ITEM_SIZES.get(dtype.lower(), 0)


def _text(value):
    """Return an argument as a short text; "" if it is neither a text nor an integer."""
    return clean(str(value)[:80]) if type(value) in (str, int) else ""
