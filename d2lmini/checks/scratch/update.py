"""Checker of updates over several devices, which must equal those of one device."""

import torch
from torch.nn import functional as F

import simgpu as sim
from d2lmini.checks.scratch.lenet import batch, on_cpu
from d2lmini.checks.shared.results import several, tensor
from d2lmini.checks.shared.solution import checker
from d2lmini.training import get_params, init_params, lenet


@checker("train_batch(X, y, device_params, devices, lr)", may_change=["device_params"])
def check_train_batch(train_batch, tolerance=1e-4):
    """Check a function that makes one update over several devices.

    Parameters
    ----------
    train_batch : callable
        ``train_batch(X, y, device_params, devices, lr)`` updating every replica.
    tolerance : float, default 1e-4
        Largest allowed difference from a float64 update on one device, relative to the step.

    Raises
    ------
    AssertionError
        If an update on k devices is not the update on one, or the replicas diverge.

    Examples
    --------
    >>> from d2lmini import train_batch
    >>> check_train_batch(train_batch)
    train_batch: passed
    """
    for devices_of in (on_cpu, sim.configure):
        for size, k in ((8, 1), (8, 2), (7, 3), (2, 4)):
            _check_two_updates(train_batch, batch(size), devices_of(k), tolerance)
    print("train_batch: passed")


def _check_two_updates(train_batch, batch, devices, tolerance):
    """Make two updates; the second one shows whether gradients start from zero."""
    start = init_params()
    replicas = [get_params(start, device) for device in devices]
    for nth in ("", ", second update"):
        where = f"batch {len(batch[0])} on {several(devices)}{nth}"
        wanted, _ = reference_update(*batch, start, lr=0.5)
        train_batch.at(where)(*batch, replicas, list(devices), 0.5)
        _compare_update(start, wanted, _on_host(replicas, devices, start, where), where, tolerance)
        start = wanted


def reference_update(X, y, params, lr):
    """Compute one SGD step on one device in float64, with autograd.

    Parameters
    ----------
    X, y : torch.Tensor
        The batch, (batch, 1, 28, 28) and (batch,).
    params : list of torch.Tensor
        LeNet's parameters.
    lr : float
        Learning rate for the mean loss.

    Returns
    -------
    list of torch.Tensor
        The parameters after the step, float64.
    float
        The mean loss before the step.

    Examples
    --------
    >>> params, loss = reference_update(
    ...     torch.zeros(4, 1, 28, 28), torch.arange(4), init_params(), lr=0.1
    ... )
    >>> params[0].dtype, round(loss, 1)
    (torch.float64, 2.3)
    """
    params = [p.detach().double().requires_grad_() for p in params]
    loss = F.cross_entropy(lenet(X.double(), params), y)
    grads = torch.autograd.grad(loss, params)
    return [(p - lr * g).detach() for p, g in zip(params, grads, strict=True)], loss.item()


def _on_host(replicas, devices, start, where):
    """Return the replicas' parameters on the host, after checking shapes and devices."""
    return [
        [
            tensor(p, f"{where}: a parameter of replica {i}", s.shape, device).detach().cpu()
            for p, s in zip(params, start, strict=True)
        ]
        for i, (params, device) in enumerate(zip(replicas, devices, strict=True))
    ]


def _compare_update(start, wanted, replicas, where, tolerance):
    """Compare the steps of the replicas with the wanted step."""
    step, k = _difference(start, wanted), len(replicas)
    steps = [_difference(start, params) for params in replicas]
    ratios = [((taken @ step) / (step @ step)).item() for taken in steps]
    for i, (taken, ratio) in enumerate(zip(steps, ratios, strict=True)):
        mistakes = {
            "did not change; update the parameters in place, on every device": not taken.any(),
            "holds NaN": taken.isnan().any(),
            "went the wrong way: subtract the gradient": abs(ratio + 1) < 0.01,
            f"took a step {ratio:.2f} times too long: divide the summed gradient by the size of "
            "the whole batch, not of the shard": k > 1 and abs(ratio - k) <= 0.01 * k,
        }
        for mistake, made in mistakes.items():
            assert not made, f"{where}: replica {i} {mistake}"
    errors = [((taken - step).norm() / step.norm()).item() for taken in steps]
    for i, taken in enumerate(steps):
        assert (taken - steps[0]).norm() <= 2 * tolerance * step.norm(), (
            f"{where}: replica {i} took another step than replica 0: its gradients were not summed "
            "over all devices, or the sum was not copied to it"
        )
    for i, (error, ratio) in enumerate(zip(errors, ratios, strict=True)):
        assert error <= tolerance, (
            f"{where}: replica {i} is off by {error:.1e} of the step (it went {ratio:.2f} "
            "of the way); check the split, the allreduce, and that gradients start from zero"
        )


def _difference(start, end):
    """Return the change of the parameters as one float64 vector."""
    parts = [(e.double() - s.double()).flatten() for s, e in zip(start, end, strict=True)]
    return torch.cat(parts)
