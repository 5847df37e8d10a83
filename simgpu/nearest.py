"""Say what a name that is not known may have been meant for."""

from difflib import get_close_matches


def nearest(name, known) -> str | None:
    """Return the known name that is most like another, whatever its case; None if none is.

    Examples
    --------
    >>> nearest("H10", ["v100", "h100"])
    'h100'
    """
    return next(iter(get_close_matches(str(name).lower(), list(known), 1)), None)


def unknown(kind, name, known, others="") -> str:
    """Return the error for an unknown name: the nearest one, or all and what else can be given.

    Examples
    --------
    >>> unknown("GPU", "h10", ["v100", "h100"])
    "unknown GPU 'h10'; did you mean 'h100'?"
    >>> unknown("GPU", "x", ["v100", "h100"], ", or a file")
    "unknown GPU 'x'; give one of v100, h100, or a file"
    """
    near = nearest(name, known)
    remedy = f"did you mean {near!r}?" if near else f"give one of {', '.join(known)}{others}"
    return f"unknown {kind} {name!r}; {remedy}"
