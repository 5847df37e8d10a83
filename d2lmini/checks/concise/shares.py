"""Checker of a loss for ranks that may have no example."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from d2lmini.checks.concise.ranks import on_ranks
from d2lmini.checks.shared.results import tensor
from d2lmini.checks.shared.solution import checker

CASES = ((1, 3), (2, 4), (2, 5), (3, 7), (3, 2), (5, 3))  # ranks, examples


class _Picky(nn.Module):
    """A layer that cannot take 0 examples, as attention with a padding mask cannot."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            self.layer = nn.Linear(5, 3)
        self.examples = 0

    def forward(self, X):
        if not len(X):
            raise RuntimeError("this network cannot take 0 examples")
        self.examples += len(X)
        return self.layer(X)


@checker("share_loss(model, X, y)", may_change=["model"])
def check_share_loss(share_loss):
    """Check the loss of a rank's share of a minibatch, which may be empty.

    Parameters
    ----------
    share_loss : callable
        ``share_loss(model, X, y)``, called on every rank with the whole minibatch: `model` is
        wrapped in `DistributedDataParallel` and cannot take 0 examples. Returns a loss whose
        gradients DDP averages to that of the mean cross-entropy over the minibatch.

    Raises
    ------
    AssertionError
        If a rank gives the network no example, the ranks deadlock, or the gradient is wrong.
    """
    for nprocs, examples in CASES:
        where = f"{examples} examples on {nprocs} rank(s)"
        given = share_loss.at(where)
        generator = torch.Generator().manual_seed(0)
        X = torch.randn(examples, 5, generator=generator)
        y = torch.randint(3, (examples,), generator=generator)
        alone = _Picky()
        cross_entropy(alone(X), y).backward()

        def program(rank, device, given=given, X=X, y=y):
            net = _Picky().to(device)
            model = DistributedDataParallel(net)  # sends as long as it is referred to
            loss = given(model, X.to(device), y.to(device))
            tensor(loss, f"the loss that share_loss returns on rank {rank}", ())
            loss.backward()
            grads = [p.grad for p in net.parameters()]
            assert None not in grads, (
                f"rank {rank} has no gradient: every rank must call the model, and its loss must "
                "depend on the output, though with weight 0"
            )
            return net.examples, torch.cat([g.flatten().cpu() for g in grads])

        right = torch.cat([p.grad.flatten() for p in alone.parameters()])
        _check_gradients(on_ranks(given, nprocs, program), right, examples, where)
    print("share_loss: passed")


def _check_gradients(results, right, examples, where):
    nprocs, computed = len(results), sum(count for count, _ in results)
    empty = max(nprocs - examples, 0)
    assert computed <= examples + empty, (
        f"{where}: the ranks compute {computed} examples together; give each rank its share of the "
        "minibatch, and one example more to a rank without any"
    )
    got = results[0][1]
    if torch.allclose(got, right, atol=1e-6):
        return
    ratio = ((got @ right) / (right @ right)).item()
    hint = "DDP divides by the number of ranks: return the sum over the share, times that number, "
    hint += "over the size of the minibatch"
    if torch.allclose(got, ratio * right, atol=1e-6):
        hint = f"it is {ratio:.3g} times the right one. {hint}"
    elif empty:
        hint = f"the additional example of a rank without any must have weight 0. {hint}"
    raise AssertionError(f"{where}: this is not the gradient that one process computes: {hint}")
