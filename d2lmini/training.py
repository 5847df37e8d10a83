"""Train LeNet on several devices with plain PyTorch, as the from-scratch chapter teaches.

Every function here is in a cell of ``chapters/multiple-gpus.ipynb``; a test keeps the two equal.
"""

import torch
from torch.nn import functional as F


def init_params(seed=0):
    """Draw LeNet's eight parameters on the CPU.

    Weights are normal with variance ``1 / fan_in``, so that a layer's outputs vary as much as its
    inputs; biases are zero.

    Parameters
    ----------
    seed : int, default 0
        Seed of a local generator; the global one is not used.

    Returns
    -------
    list of torch.Tensor
        Weight and bias of two convolutions and two linear layers, without gradients:
        (20, 1, 5, 5), (20,), (50, 20, 5, 5), (50,), (800, 128), (128,), (128, 10), (10,).

    Examples
    --------
    >>> sum(p.numel() for p in init_params())
    129388
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape, fan_in):
        return torch.randn(shape, generator=generator) / fan_in**0.5

    conv1, b1 = draw(20, 1, 5, 5, fan_in=25), torch.zeros(20)
    conv2, b2 = draw(50, 20, 5, 5, fan_in=500), torch.zeros(50)
    dense1, b3 = draw(800, 128, fan_in=800), torch.zeros(128)
    dense2, b4 = draw(128, 10, fan_in=128), torch.zeros(10)
    return [conv1, b1, conv2, b2, dense1, b3, dense2, b4]


def lenet(X, params):
    """Compute LeNet's outputs.

    Parameters
    ----------
    X : torch.Tensor
        Images, (batch, 1, 28, 28).
    params : list of torch.Tensor
        As `init_params` returns them, on the device of `X`.

    Returns
    -------
    torch.Tensor
        Logits, (batch, 10).

    Examples
    --------
    >>> lenet(torch.zeros(3, 1, 28, 28), init_params()).shape
    torch.Size([3, 10])
    """
    conv1, b1, conv2, b2, dense1, b3, dense2, b4 = params
    h = F.avg_pool2d(F.relu(F.conv2d(X, conv1, b1)), 2)  # (batch, 20, 12, 12)
    h = F.avg_pool2d(F.relu(F.conv2d(h, conv2, b2)), 2)  # (batch, 50, 4, 4)
    h = F.relu(h.flatten(1) @ dense1 + b3)  # (batch, 128)
    return h @ dense2 + b4  # (batch, 10)


def get_params(params, device):
    """Copy parameters to a device, ready for gradients.

    The result never shares memory with `params`, not even on the same device: if two replicas
    shared memory, an update of one would also change the other.

    Parameters
    ----------
    params : list of torch.Tensor
        Parameters on any device.
    device : torch.device or str
        Device of the copies.

    Returns
    -------
    list of torch.Tensor
        Copies that require gradients.

    Examples
    --------
    >>> original = torch.zeros(2)
    >>> copy = get_params([original], "cpu")[0]
    >>> copy.requires_grad, copy.data_ptr() == original.data_ptr()
    (True, False)
    """
    return [p.detach().to(device, copy=True).requires_grad_() for p in params]


def allreduce(data):
    """Sum tensors over devices in place, so that every device has the sum.

    The first device adds up the tensors, then copies the sum to the others: ``2 * (k - 1)`` copies
    for k devices.

    Parameters
    ----------
    data : list of torch.Tensor
        One tensor per device, all of the same shape, none sharing memory with another. Changed in
        place.

    Raises
    ------
    ValueError
        If shapes differ, or two tensors begin at the same address: the sum would overwrite an
        addend.

    Examples
    --------
    >>> data = [torch.ones(2), torch.full((2,), 3.0)]
    >>> allreduce(data)
    >>> data
    [tensor([4., 4.]), tensor([4., 4.])]
    """
    if len({d.shape for d in data}) > 1:
        raise ValueError("tensors differ in shape; give each device the same")
    places = {(d.device, d.data_ptr()) for d in data}
    if len(places) < len(data) and data[0].numel():
        raise ValueError("tensors share memory; give each device its own copy")
    for d in data[1:]:
        data[0] += d.to(data[0].device)
    for d in data[1:]:
        d.copy_(data[0])


def split_batch(X, y, devices):
    """Split a batch into consecutive shards, one per device, with sizes that differ by at most one.

    Parameters
    ----------
    X, y : torch.Tensor
        Examples and labels, batch dimension first, of equal length.
    devices : list of torch.device
        Devices of the shards.

    Returns
    -------
    tuple of tuple of torch.Tensor
        Shards of `X` and shards of `y`. With fewer examples than devices the last ones are empty.

    Raises
    ------
    ValueError
        If `X` and `y` differ in length.

    Examples
    --------
    >>> Xs, ys = split_batch(torch.zeros(5, 3), torch.arange(5), ["cpu", "cpu"])
    >>> [len(X) for X in Xs], ys
    ([3, 2], (tensor([0, 1, 2]), tensor([3, 4])))
    """
    if len(X) != len(y):
        raise ValueError(f"{len(X)} examples, {len(y)} labels: give each one")
    k = len(devices)
    pieces = zip(X.tensor_split(k), y.tensor_split(k), devices, strict=True)
    shards = [(X.to(device), y.to(device)) for X, y, device in pieces]
    return tuple(zip(*shards, strict=True))


def sgd(params, lr, batch_size):
    """Take one step of minibatch stochastic gradient descent and clear the gradients.

    Parameters
    ----------
    params : list of torch.Tensor
        Parameters whose ``grad`` holds the gradient of the *sum* of the losses of the batch.
        Changed in place.
    lr : float
        Learning rate.
    batch_size : int
        Number of examples in the whole batch, on all devices together.

    Examples
    --------
    >>> w = torch.ones(1, requires_grad=True)
    >>> (3 * w).sum().backward()
    >>> sgd([w], lr=0.5, batch_size=1)
    >>> w
    tensor([-0.5000], requires_grad=True)
    """
    with torch.no_grad():
        for p in params:
            p -= lr / batch_size * p.grad
            p.grad.zero_()


def loss_sum(X, y, params):
    """Compute the sum of LeNet's losses over a shard.

    Parameters
    ----------
    X, y : torch.Tensor
        Images, (shard, 1, 28, 28), and labels, (shard,).
    params : list of torch.Tensor
        As `init_params` returns them, on the device of `X`.

    Returns
    -------
    torch.Tensor
        The sum of the cross-entropies, a scalar; 0 for an empty shard.

    Examples
    --------
    >>> loss_sum(torch.zeros(0, 1, 28, 28), torch.zeros(0, dtype=int), init_params())
    tensor(0.)
    """
    return F.cross_entropy(lenet(X, params), y, reduction="sum")


def train_shards(X_shards, y_shards, device_params, lr):
    """Make one update from shards that are already on their devices.

    Parameters
    ----------
    X_shards, y_shards : sequence of torch.Tensor
        One shard of the batch per device, as `split_batch` returns them.
    device_params : list of list of torch.Tensor
        The replicas, one list per device, with equal values. Updated in place; they stay equal.
    lr : float
        Learning rate for the mean loss over all shards.

    Examples
    --------
    >>> replicas = [get_params(init_params(), "cpu") for _ in range(2)]
    >>> shards = split_batch(torch.rand(5, 1, 28, 28), torch.arange(5), ["cpu", "cpu"])
    >>> train_shards(*shards, replicas, lr=0.1)
    >>> all(torch.equal(p, q) for p, q in zip(*replicas))
    True
    """
    shards = zip(X_shards, y_shards, device_params, strict=True)
    losses = [loss_sum(*shard) for shard in shards]
    for loss in losses:
        loss.backward()
    grads = [[p.grad for p in params] for params in device_params]
    with torch.no_grad():
        for data in zip(*grads, strict=True):
            allreduce(list(data))
    batch_size = sum(map(len, y_shards))
    for params in device_params:
        sgd(params, lr, batch_size)


def train_batch(X, y, device_params, devices, lr):
    """Make one update with the batch split over several devices.

    Parameters
    ----------
    X, y : torch.Tensor
        The whole batch, (batch, 1, 28, 28) and (batch,).
    device_params : list of list of torch.Tensor
        The replicas, one list per device, with equal values. Updated in place; they stay equal.
    devices : list of torch.device
        The device of each replica.
    lr : float
        Learning rate for the mean loss over the whole batch.

    Examples
    --------
    >>> devices = ["cpu", "cpu"]
    >>> replicas = [get_params(init_params(), d) for d in devices]
    >>> train_batch(torch.rand(5, 1, 28, 28), torch.arange(5), replicas, devices, lr=0.1)
    >>> all(torch.equal(p, q) for p, q in zip(*replicas))
    True
    """
    train_shards(*split_batch(X, y, devices), device_params, lr)


def train_networks(nets, X, y, devices, lr):
    """Make one update of a network of which every device has a replica.

    Parameters
    ----------
    nets : list of torch.nn.Module
        One replica on each device, all with the same parameters. Changed in place.
    X, y : torch.Tensor
        Examples, and the class of each, (batch,), or of each part of it, such as the tokens of a
        text: (batch, parts).
    devices : list of torch.device
        Devices of the replicas.
    lr : float
        Learning rate.

    Returns
    -------
    list of torch.Tensor
        The sum of the losses of each device's shard, without gradients.

    Examples
    --------
    >>> net = torch.nn.Linear(2, 3)
    >>> X, y = torch.ones(4, 2), torch.tensor([0, 1, 2, 0])
    >>> [loss] = train_networks([net], X, y, ["cpu"], lr=0.1)
    >>> loss.shape
    torch.Size([])
    """
    losses = []
    shards = split_batch(X, y, devices)
    for net, X_shard, y_shard in zip(nets, *shards, strict=True):
        logits = net(X_shard).flatten(0, -2)  # (examples, classes)
        losses += [F.cross_entropy(logits, y_shard.flatten(), reduction="sum")]
    for loss in losses:
        loss.backward()
    replicas = [list(net.parameters()) for net in nets]
    with torch.no_grad():
        for params in zip(*replicas, strict=True):
            allreduce([p.grad for p in params])
    for params in replicas:
        sgd(params, lr, y.numel())
    return [loss.detach() for loss in losses]
