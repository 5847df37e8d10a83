"""Try the parts of an update of LeNet: copies of parameters, shards of a batch, an accuracy."""

import math

import torch

from d2lmini.checks._results import describe, number, several, tensor
from d2lmini.training import get_params, init_params, lenet

CPU = torch.device("cpu")


def batch(size, seed=0):
    """Draw a batch of random images and labels: (size, 1, 28, 28) and (size,)."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(size, 1, 28, 28, generator=generator)
    return X, torch.randint(10, (size,), generator=generator)


def check_copy(values, original, copy, device, where):
    """Refuse a copy that is no good, and an original that is not what it was."""
    tensor(copy, f"{where}: a copy", values.shape, device)
    assert torch.equal(copy.detach().cpu(), values), (
        f"{where}: a copy differs from its original in value"
    )
    shared = copy.device == original.device and copy.data_ptr() == original.data_ptr()
    assert not shared, (
        f"{where}: a copy shares memory with its original: `.to(device)` copies nothing when the "
        "tensor is there already; ask for `copy=True` or clone"
    )
    assert copy.requires_grad, f"{where}: a copy does not require gradients; call requires_grad_()"
    assert copy.is_leaf, (
        f"{where}: a copy is not a leaf, so its .grad stays None; detach before requiring gradients"
    )
    assert not original.requires_grad, (
        f"{where}: an original requires gradients now; call requires_grad_() on the copy"
    )


def check_one_split(split_batch, batch, devices):
    """Split one batch over devices and refuse shards that are not its parts."""
    k, size = len(devices), len(batch[0])
    where = f"with {size} examples on {several(devices)}"
    split_batch = split_batch.at(where)
    Xs, ys = split_batch.items(split_batch(*batch, list(devices)), 2)
    for name, whole, shards in (("X", batch[0], Xs), ("y", batch[1], ys)):
        shards = split_batch.items(shards)
        assert len(shards) == k, f"{where}: {len(shards)} shards of {name}; one a device is needed"
        for shard, device in zip(shards, devices, strict=True):
            tensor(shard, f"{where}: a shard of {name}", device=device)
            is_part = shard.dim() == whole.dim() and shard.shape[1:] == whole.shape[1:]
            assert is_part, (
                f"{where}: a shard of {name} is {describe(shard)}; an example is of shape "
                f"{tuple(whole.shape[1:])}"
            )
        total = sum(map(len, shards))
        assert total == size, f"{where}: the shards hold {total} examples"
        problem = (
            "the examples were reordered or changed"
            if name == "X"
            else "labels do not match their examples"
        )
        assert torch.equal(torch.cat([shard.cpu() for shard in shards]), whole), (
            f"{where}: {problem}"
        )
        sizes = [len(shard) for shard in shards]
        assert max(sizes) - min(sizes) <= 1, f"{where}: uneven shards {sizes}"


def check_accuracy(evaluate, sizes, devices):
    """Let it evaluate batches of these sizes; refuse any other accuracy than the right one."""
    params, batches = init_params(), []
    for seed, size in enumerate(sizes):
        X, _ = batch(size, seed)
        y = lenet(X, params).argmax(1)
        y[0] = (y[0] + 1) % 10  # the network is right for all but the first example of each batch
        batches.append((X, y))
    right, total = sum(sizes) - len(sizes), sum(sizes)
    where = f"batches of {sizes} on {several(devices)}"
    replicas = [get_params(params, device) for device in devices]
    got = evaluate.at(where)(replicas, batches, list(devices))
    got = number(got, f"{where}: the accuracy that evaluate returns")
    hint = "every example counts exactly once, whatever the batch sizes"
    if right and math.isclose(got, right):
        hint = f"that is the number of right answers; divide it by the number of examples, {total}"
    elif right and math.isclose(got, 100 * right / total):
        hint = "that is in per cent; return a share, from 0 to 1"
    assert abs(got - right / total) < 1e-6, (
        f"{where}: accuracy {got:.4f}, but {right / total:.4f} is right; {hint}"
    )
