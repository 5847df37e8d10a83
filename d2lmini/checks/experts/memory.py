"""Checker of what a model with experts holds in memory, and of what it computes."""

from d2lmini.checks.shared.results import number
from d2lmini.checks.shared.solution import checker
from d2lmini.pages.experts import Sizes

STATES = 16  # bytes for a weight: itself, its gradient, a copy in 32 bits and two moments


@checker("needs(sizes, layers, rest, ranks)")
def check_needs(needs):
    """Check how many bytes each GPU holds, and how many FLOPs a token takes.

    Parameters
    ----------
    needs : callable
        ``needs(sizes, layers, rest, ranks)``: a model has `layers` layers of experts with
        `sizes`, a `Sizes`, and `rest` other weights. The experts of each layer are distributed
        over `ranks` GPUs; each GPU has all other weights. Returns the bytes of weights, gradients
        and moments on each GPU, 16 for each weight, and the FLOPs of a token, forward and
        backward, 6 for each weight that it uses.

    Raises
    ------
    AssertionError
        If a number is wrong; the message names the usual mistakes.
    """
    cases = (
        (Sizes(2048, 768, 128, 8), 48, 1_500_000_000, 8),
        (Sizes(16, 32, 8, 2), 3, 5_000, 4),
        (Sizes(16, 32, 4, 4), 1, 0, 1),
        (Sizes(64, 16, 16, 1), 2, 10_000, 16),
    )
    for sizes, layers, rest, ranks in cases:
        one, of = 3 * sizes.hidden * sizes.width * layers, "s" * (ranks > 1)
        every, used = one * sizes.experts, one * sizes.active
        where = f"{sizes.active} of {sizes.experts} experts, {layers} layers, {ranks} GPU{of}"
        given = needs.at(where)
        held, flops = given.items(given(sizes, layers, rest, ranks), 2)
        held = number(held, f"{where}: the bytes on each GPU")
        flops = number(flops, f"{where}: the FLOPs of a token")
        right = STATES * (rest + every / ranks)
        if abs(held - right) > 1e-9 * right:
            hint = _explain_held(held, rest, every, used, ranks)
            raise AssertionError(
                f"{where}: each GPU holds {right:,.0f} bytes, not {held:,.0f}. {hint}"
            )
        right = 6 * (rest + used)
        if abs(flops - right) > 1e-9 * right:
            hint = _explain_flops(flops, rest, every, used, ranks)
            raise AssertionError(
                f"{where}: a token takes {right:,} FLOPs, not {flops:,.0f}. {hint}"
            )
    print("needs: passed")


def _explain_held(held, rest, every, used, ranks):
    wrong = {
        "That counts only the experts that a token uses. The next token uses others: the memory "
        "has to hold all of them": STATES * (rest + used / ranks),
        "Only the experts are distributed; each GPU has all other weights": (
            STATES * (rest + every) / ranks
        ),
        "The experts of a layer are distributed over the GPUs": STATES * (rest + every),
    }
    for hint, value in wrong.items():
        if abs(held - value) <= 1e-9 * value:
            return hint
    return "It is 16 for each weight that the GPU has; an expert has 3 x hidden x width weights"


def _explain_flops(flops, rest, every, used, ranks):
    wrong = {
        "That counts all experts. A token is computed only by those that it uses": (
            6 * (rest + every)
        ),
        "A token uses its experts wherever they are: do not divide by the number of GPUs": (
            6 * (rest + used / ranks)
        ),
    }
    for hint, value in wrong.items():
        if abs(flops - value) <= 1e-9 * value:
            return hint
    return "It is 6 for each weight that the token uses"
