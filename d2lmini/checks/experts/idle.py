"""Checker of experts that get no tokens on a rank, and whose gradients others wait for."""

import torch
from torch import nn

from d2lmini.checks.shared.ranks import differ, draw
from d2lmini.checks.shared.results import tensor
from d2lmini.checks.shared.solution import checker

WIDTH, EXPERTS = 4, 3
CASES = {
    "tokens for all experts": ([0, 1, 2, 0], [2, 1, 0, 1]),
    "an expert without tokens on rank 1": ([0, 1, 2, 2], [0, 0, 1, 0]),
    "an expert without tokens on all ranks": ([0, 2], [2, 2]),
}  # the expert that each token has chosen, on each rank


class _Expert(nn.Linear):
    """An expert that counts its rows."""

    rows = 0

    def forward(self, x):
        self.rows += len(x)
        return super().forward(x)


@checker("mixture(x, chosen, experts)", may_change=["experts"])
def check_mixture(mixture):
    """Check that all experts of a rank get a gradient, though some get no tokens.

    The function with the mistake of DeepSpeed#5066 is refused with that name.

    Parameters
    ----------
    mixture : callable
        ``mixture(x, chosen, experts)``, returning for each row of `x` the result of the expert
        that `chosen` names. The gradient of each expert is summed over all ranks as soon as it is
        there, so that each rank needs one for every expert.

    Raises
    ------
    AssertionError
        If an expert has no gradient, the results are others, or too much is computed.
    """
    for case, ranks in CASES.items():
        for rank, numbers in enumerate(ranks):
            where = f"{case}, rank {rank}"
            x, chosen = draw(len(numbers), WIDTH, seed=rank), torch.tensor(numbers)
            experts = _experts()
            out = mixture.at(where)(x, chosen, experts)
            right = torch.stack([_experts()[e](row) for row, e in zip(x, numbers, strict=True)])
            tensor(out, f"{where}: what mixture returns", right.shape)
            assert not differ(out.detach(), right.detach()), (
                f"{where}: a row is not the result of its token's expert"
            )
            _check_rows([expert.rows for expert in experts], numbers, where)
            _check_gradients(mixture, out, experts, numbers, where)
    print("mixture: passed")


def _experts():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.ModuleList(_Expert(WIDTH, WIDTH).double() for _ in range(EXPERTS))


def _check_rows(rows, numbers, where):
    for e, computed in enumerate(rows):
        tokens = numbers.count(e)
        assert computed <= max(tokens, 1), (
            f"{where}: expert {e} computes {computed} rows, but {tokens} tokens have chosen it"
        )


def _check_gradients(mixture, out, experts, numbers, where):
    with mixture.at(where).running():
        out.sum().backward()
    for e, expert in enumerate(experts):
        if expert.weight.grad is None:
            assert e in numbers, (
                f"{where}: expert {e} has no tokens, and no gradient. That is DeepSpeed#5066: this "
                "rank leaves out the sum of the expert's gradients, and the other ranks wait for "
                "it forever. Let an expert without tokens compute with no rows"
            )
            raise AssertionError(f"{where}: expert {e} has tokens, but no gradient")
        tokens = numbers.count(e)
        assert torch.allclose(expert.bias.grad, torch.full((WIDTH,), float(tokens)).double()), (
            f"{where}: the gradient of expert {e} is not that of its {tokens} tokens"
        )
