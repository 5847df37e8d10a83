"""Truth values in runs that keep shapes only: numbers without values count as finite ones.

So `torch.isfinite` of a loss is true, and scripts that stop at losses of NaN go on.
"""

import math

_NEVER = {"isnan", "isinf", "isposinf", "isneginf"}
_COMPARISONS = {"eq", "ne"}
_REDUCE = {"all", "any"}
_COMBINE = {
    "mul": all, "bitwise_and": all, "logical_and": all, "bitwise_or": any, "logical_or": any,
}  # fmt: skip
_NOT = {"bitwise_not", "logical_not"}


def truth(call) -> bool | None:
    """Return the truth value that all elements of a result have; None if it is not known."""
    name, args = call.op.packet_name, call.args
    if name in _NEVER:
        return False
    if name in _COMPARISONS:
        return _comparison(name, *args[:2])
    if name in _REDUCE:
        return _known(args[0]) if args[0].numel() else None
    if name in _NOT:
        known = _known(args[0])
        return None if known is None else not known
    known = [_known(arg) for arg in args[:2]] if name in _COMBINE else [None]
    return None if None in known else _COMBINE[name](known)


def _comparison(name, first, other):
    """Return what `first` == `other`, or !=, is where finite numbers decide it."""
    if other is first:
        return name == "eq"
    is_never_equal = isinstance(other, float) and not math.isfinite(other)
    return name == "ne" if is_never_equal else None


def _known(arg):
    number = arg._block.equal if hasattr(arg, "_block") else None
    return number if isinstance(number, bool) else None
