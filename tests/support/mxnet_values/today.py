"""What PyTorch and d2lmini compute for the inputs of record.py: a function for each value."""

import torch
from torch import nn
from torch.nn import functional as F

from d2lmini import (
    accuracy,
    allreduce,
    devices_in_use,
    evaluate_accuracy,
    get_params,
    lenet,
    split_batch,
    train_batch,
    try_all_gpus,
    try_gpu,
)

SHAPES = [(20, 1, 5, 5), (20,), (50, 20, 5, 5), (50,), (800, 128), (128,), (128, 10), (10,)]
COMPARED = {}


def pattern(*shape):
    count = torch.Size(shape).numel()
    return ((7 * torch.arange(count) % 11 - 5) / 10).reshape(shape)


def labels(count, classes=3):
    return torch.arange(count) * 2 % classes


def linear():
    """Return the network that the trainers of record.py start from."""
    net = nn.Linear(4, 3)
    with torch.no_grad():
        net.weight.copy_(pattern(3, 4))
        net.bias.copy_(pattern(3))
    return net


def compared_with(*recorded):
    """Enter a function under the names of the values that it is compared with."""

    def enter(function):
        COMPARED.update(dict.fromkeys(recorded, function))
        return function

    return enter


def devices():
    """Return the two GPUs that the test has asked for."""
    return devices_in_use()[:2]


def on_gpu(*shape):
    return pattern(*shape).to(devices()[0])


@compared_with("nd.Convolution", "npx.convolution")
def convolution():
    return F.conv2d(on_gpu(1, 1, 4, 4), on_gpu(2, 1, 3, 3), on_gpu(2))


@compared_with("nd.Pooling avg", "npx.pooling avg")
def average_pooling():
    return F.avg_pool2d(on_gpu(1, 1, 4, 4), 2)


@compared_with("nd.Pooling without stride", "npx.pooling without stride")
def pooling_with_steps_of_one():
    return F.avg_pool2d(on_gpu(1, 1, 4, 4), 2, stride=1)


@compared_with("nd.Pooling max", "nd.Pooling without type")
def maximum_pooling():
    return F.max_pool2d(on_gpu(1, 1, 4, 4), 2)


@compared_with("nd.relu", "npx.relu", "npx.activation relu")
def relu():
    return F.relu(on_gpu(1, 1, 4, 4))


@compared_with("nd.dot", "np.dot")
def dot():
    return on_gpu(2, 3) @ on_gpu(3, 2)


@compared_with("nd.dot of three axes")
def dot_of_three_axes():
    a, b = (torch.ones(shape, device=devices()[0]) for shape in ((2, 3, 4), (4, 5, 6)))
    return list(torch.tensordot(a, b, 1).shape)


@compared_with("nd.norm")
def norm():
    return torch.linalg.vector_norm(on_gpu(1, 1, 4, 4))


@compared_with("SoftmaxCrossEntropyLoss")
def cross_entropy():
    return F.cross_entropy(on_gpu(4, 3), labels(4).to(devices()[0]), reduction="none")


@compared_with("its gradient")
def gradient_of_cross_entropy():
    logits = on_gpu(4, 3).requires_grad_()
    F.cross_entropy(logits, labels(4).to(logits.device), reduction="none").sum().backward()
    return logits.grad


@compared_with("L2Loss")
def squares():
    return F.mse_loss(on_gpu(4, 3), on_gpu(3, 4).T, reduction="none").mean(1) / 2


def gradient(clear):
    w = on_gpu(3).requires_grad_()
    for _ in range(2):
        if clear and w.grad is not None:
            w.grad.zero_()
        (w * w / 2).sum().backward()
    return w.grad


@compared_with("gradient, write")
def gradient_written():
    return gradient(clear=True)


@compared_with("gradient, add")
def gradient_added():
    return gradient(clear=False)


def trained(rates, count=8, **options):
    """Return weights and biases after steps with the mean loss."""
    net = linear().to(devices()[0])
    X, y = on_gpu(count, 4), labels(count).to(devices()[0])
    optimizer = torch.optim.SGD(net.parameters(), lr=rates[0], **options)
    for lr in rates:
        optimizer.param_groups[0]["lr"] = lr
        optimizer.zero_grad()
        F.cross_entropy(net(X), y).backward()
        optimizer.step()
    return net.weight, net.bias


TRAINED = {
    "trainer.step(8)": {"rates": [0.1]},
    "trainer.step(8) on one device": {"rates": [0.1]},
    "trainer.step(7)": {"rates": [0.1], "count": 7},
    "momentum": {"rates": [0.1, 0.1, 0.1], "momentum": 0.9},
    "wd": {"rates": [0.1, 0.1], "weight_decay": 0.5},
}
for name, options in TRAINED.items():
    COMPARED[f"weights, {name}"] = lambda options=options: trained(**options)[0]
    COMPARED[f"biases, {name}"] = lambda options=options: trained(**options)[1]


@compared_with("kv.push and kv.pull")
def summed():
    data = [pattern(3).to(d) + i for i, d in enumerate(devices())]
    allreduce(data)
    assert torch.equal(data[0].cpu(), data[1].cpu())
    return data[1]


def shards(count):
    return [
        shard.tolist() for shard in split_batch(torch.arange(count), labels(count), devices())[0]
    ]


@compared_with("split_and_load of 8")
def equal_shards():
    return shards(8)


@compared_with("split_and_load of 7, even_split=False")
def unequal_shards():
    return shards(7)


@compared_with("d2l.split_batch")
def shards_of_both():
    found = split_batch(pattern(4, 2), torch.arange(4), devices())
    return [torch.stack([shard.cpu() for shard in part]) for part in found]


@compared_with("BatchNorm")
def normalised():
    return nn.BatchNorm1d(2).to(devices()[0])(on_gpu(4, 2))


@compared_with("BatchNorm's means")
def running_means():
    layer = nn.BatchNorm1d(2, momentum=0.1).to(devices()[0])
    layer(on_gpu(4, 2))
    return layer.running_mean


@compared_with("as_in_context returns x itself")
def to_returns_x():
    x = on_gpu(3)
    return x.to(x.device) is x


@compared_with("copyto returns x itself")
def copy_returns_x():
    x = on_gpu(3)
    return x.to(x.device, copy=True) is x


def statistics(values):
    values = values.detach().cpu()
    return {"mean": values.mean().item(), "std": values.std().item(), "max": values.max().item()}


def initialised(initialise):
    layer = nn.Linear(600, 300).to(devices()[0])
    initialise(layer.weight)
    nn.init.zeros_(layer.bias)
    return {"weight": statistics(layer.weight), "bias": statistics(layer.bias)}


@compared_with("init.Normal()")
def normal():
    return initialised(lambda weight: nn.init.normal_(weight, std=0.01))


@compared_with("init.Normal(sigma=0.1)")
def wider_normal():
    return initialised(lambda weight: nn.init.normal_(weight, std=0.1))


@compared_with("init.Xavier()")
def xavier():
    return initialised(nn.init.xavier_uniform_)


@compared_with("no init")
def uniform_weights():
    return initialised(lambda weight: nn.init.uniform_(weight, -0.07, 0.07))


@compared_with("nd.random_normal")
def random_normal():
    return statistics(0.5 + 0.01 * torch.randn((300, 600), device=devices()[0]))


@compared_with("nd.random.uniform")
def random_uniform():
    return statistics(torch.rand((300, 600), device=devices()[0]))


def from_scratch():
    """Train LeNet for two steps; return the losses of each shard and the replicas."""
    replicas = [get_params([pattern(*s) / 4 for s in SHAPES], d) for d in devices()]
    X, y, found = pattern(6, 1, 28, 28), labels(6, 10), []
    for _ in range(2):
        parts = zip(*split_batch(X, y, devices()), replicas, strict=True)
        losses = [F.cross_entropy(lenet(Xs, p), ys, reduction="none") for Xs, ys, p in parts]
        found.append(torch.stack([loss.detach().cpu() for loss in losses]))
        train_batch(X, y, replicas, devices(), lr=0.1)
    return torch.stack(found), replicas


@compared_with("losses from scratch")
def losses_from_scratch():
    return from_scratch()[0]


@compared_with("norms from scratch")
def norms_from_scratch():
    first, second = from_scratch()[1]
    assert all(torch.equal(p.cpu(), q.cpu()) for p, q in zip(first, second, strict=True))
    return torch.stack([p.detach().cpu().double().norm().float() for p in first])


@compared_with("d2l.accuracy")
def right():
    return float(accuracy(on_gpu(6, 3), labels(6).to(devices()[0])))


@compared_with("d2l.evaluate_accuracy_gpus")
def accuracy_of_all():
    batches = [(pattern(4, 4), labels(4))] * 2
    return evaluate_accuracy(linear().to(devices()[0]), batches, devices()[0])


@compared_with("d2l.try_gpu(1000)")
def gpu_that_is_not_there():
    return "cpu(0)" if try_gpu(1000) == torch.device("cpu") else "a GPU"


@compared_with("d2l.try_all_gpus()")
def all_gpus():
    return ["cpu(0)" if d == torch.device("cpu") else "a GPU" for d in try_all_gpus()]
