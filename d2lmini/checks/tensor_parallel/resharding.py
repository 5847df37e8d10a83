"""Checker of a gated weight that is cut anew, for another number of ranks."""

import torch

from d2lmini.checks.shared.ranks import draw
from d2lmini.checks.shared.results import tensor
from d2lmini.checks.shared.solution import checker

WIDTH, FEATURES = 12, 4
CASES = ((1, 1), (2, 1), (1, 2), (4, 4), (4, 2), (2, 6))  # ranks before and after


@checker("reshard(parts, t)")
def check_reshard(reshard):
    """Check a function that cuts the weight of a gated layer anew, for `t` ranks.

    The function with the mistake of ROCm/Megatron-LM#63 is refused with that name.

    Parameters
    ----------
    reshard : callable
        ``reshard(parts, t)``, where `parts` has the matrix of each rank of a checkpoint, with its
        rows of the gate above its rows of the other weight. It returns such a list for `t` ranks.

    Raises
    ------
    AssertionError
        If a part is another one; the message names the usual mistakes.
    """
    gate, up = draw(WIDTH, FEATURES, seed=1), draw(WIDTH, FEATURES, seed=2)
    for before, t in CASES:
        where = f"from {before} to {t} rank(s)"
        given = reshard.at(where)
        got = given.items(given(_parts(gate, up, before), t), t)
        right = _parts(gate, up, t)
        for rank, (part, wanted) in enumerate(zip(got, right, strict=True)):
            tensor(part, f"{where}: the part of rank {rank}", wanted.shape)
        if not all(map(torch.equal, got, right)):
            hint = _explain(got, gate, up, before, t)
            off = (_output(got) - _output(right)).norm() / _output(right).norm()
            raise AssertionError(
                f"{where}: not all rows are on their rank and in their place, and the output of "
                f"the layer is off by {100 * off:.0f} %. {hint}"
            )
    print("reshard: passed")


def _parts(gate, up, t):
    """Return the part of each rank: its rows of the gate above its rows of the other weight."""
    return [torch.cat(both) for both in zip(gate.chunk(t), up.chunk(t), strict=True)]


def _output(parts):
    """Return what the gated layer computes of one input, all ranks' features together."""
    x, out = draw(FEATURES, seed=3), []
    for part in parts:
        gated, other = (part @ x).chunk(2)
        out.append(torch.nn.functional.silu(gated) * other)
    return torch.cat(out)


def _explain(got, gate, up, before, t):
    joined = torch.cat(_parts(gate, up, before))
    if before > 1 and torch.equal(torch.cat(got), joined):
        return (
            "That is ROCm/Megatron-LM#63: joined as they are, the parts are not the whole gate "
            "above the whole other weight, but the halves of one rank after those of another. Take "
            "the halves apart, join each kind, and cut both"
        )
    if torch.equal(torch.cat(got), torch.cat([gate, up])):
        return (
            "Rows of the gate and of the other weight lie on different ranks: each rank needs its "
            "part of both"
        )
    if all(map(torch.equal, got, _parts(up, gate, t))):
        return "The gate comes first in each part"
    return "Each rank needs its rows of the gate, and below them its rows of the other weight"
