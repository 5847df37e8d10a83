"""What ranks split, by what they send: experts, or sequences."""

# What PyTorch's `context_parallel`, torchtitan and others call the axis of a mesh whose ranks share
# sequences.
AXES = "cp", "context", "context_parallel"
# And one whose ranks share tensors: a DTensor that is sharded anew makes all-to-alls, too.
TENSOR_AXES = "tp", "tensor", "tensor_parallel"


def sends_to_experts(spans):
    """Return whether ranks exchange all-to-alls, as experts do.

    Those that share sequences or tensors do, too, and are known by the names of their axes.

    Parameters
    ----------
    spans : list of Span
    """
    return any(
        span.engine == "comm"
        and span.name.startswith("all_to_all")
        and not _is_along(AXES + TENSOR_AXES, span)
        for span in spans
    )


def splits_sequences(spans):
    """Return whether ranks share sequences: whether they send along an axis of `AXES`.

    Of groups without a mesh nothing is known, nor of an axis with all ranks: PyTorch gives it
    the group of all.
    """
    return any(span.engine == "comm" and _is_along(AXES, span) for span in spans)


def _is_along(axes, span):
    return span.ranks > 1 and span.group.removeprefix("mesh_") in axes
