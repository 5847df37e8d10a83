"""What tests/ddp/test_numbers.py runs on several ranks, all in one job: started by torchrun.

Starting processes takes seconds, the scenarios milliseconds.
"""

import contextlib
import sys
from unittest import mock

import torch
import torch.distributed as dist
import train_ddp
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from d2lmini import ddp
from d2lmini.resnet import resnet18

TEN_STEPS = ["--epochs", "1", "--batch-size", "32", "--precision", "float32", "--device", "cpu"]
SLIM = ["--model", "resnet18", "--width", "4", "--synthetic", "320"]
LENET = ["--model", "lenet", "--momentum", "0.9", "--synthetic"]
SCENARIOS = {
    "all batches divide": [*LENET, "320"],
    "last batch of 7": [*LENET, "295"],
    "last batch of 1": [*LENET, "289"],
    "accumulation": [*LENET, "295", "--accumulate", "3"],
    "float32": [*LENET, "295"],
    "group norm": [*SLIM, "--norm", "group"],
    "batch norm": SLIM,
    "frozen batch norm": SLIM,
}
EVALUATED_SIZES = [1, 2, 3, 100, 101, 102, 103]


def step_with_mean_of_means(model, optimizer, X, y, batch_size, accumulate=1, dtype=torch.float32):
    """Wrong: each rank's mean, averaged over ranks with shares of different sizes."""
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(X), y)
    loss.backward()
    optimizer.step()
    return loss.detach() * len(y)


def step_without_no_sync(model, optimizer, X, y, batch_size, accumulate=1, dtype=torch.float32):
    """Slow but right: the gradients travel after every part."""
    scale = dist.get_world_size() / batch_size
    optimizer.zero_grad()
    for X_part, y_part in zip(X.chunk(accumulate), y.chunk(accumulate), strict=True):
        loss = functional.cross_entropy(model(X_part), y_part, reduction="sum")
        (loss * scale).backward()
    optimizer.step()
    return loss.detach()


def build_frozen(args):
    net = train_ddp_build_model(args)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
    return net


train_ddp_build_model = train_ddp.build_model


@contextlib.contextmanager
def default_dtype(dtype):
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def train_scenario(name, worker):
    """Return the weights after ten steps, computed in float64 unless the name says otherwise.

    In float32 the last bits differ, since sums run in another order; and now and then such a bit
    moves an input of a ReLU over 0 and makes a visible difference.
    """
    dtype = torch.float32 if name == "float32" else torch.float64
    build = build_frozen if name == "frozen batch norm" else train_ddp_build_model
    with mock.patch.object(train_ddp, "build_model", build), default_dtype(dtype):
        job = train_ddp.Job(train_ddp.parse_args([*SCENARIOS[name], *TEN_STEPS]), worker)
        assert job.steps == 10
        job.run()
    return {name: value.clone() for name, value in job.net.state_dict().items()}


def train_wrongly(worker):
    with mock.patch.object(train_ddp, "train_step", step_with_mean_of_means):
        return train_scenario("last batch of 7", worker)


def count_messages(step, worker, accumulate):
    """Return how often the gradients of one update travel."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    model = ddp.wrap_model(net, worker.device)
    counts = {"buckets": 0}

    def hook(_, bucket):
        counts["buckets"] += 1
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return future.then(lambda f: f.value()[0] / worker.world_size)

    model.register_comm_hook(None, hook)
    X, y = torch.ones(6, 1, 28, 28), torch.zeros(6, dtype=torch.int64)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(2):
        step(model, optimizer, X, y, 6 * worker.world_size, accumulate)
    return counts["buckets"] / 2


def evaluated_net():
    torch.manual_seed(3)
    return train_ddp.build_model(train_ddp.parse_args(["--model", "lenet"])).eval()


def evaluated_data(net, num_images):
    """Return images of which the network classifies every third right, the first included."""
    images, _ = ddp.synthetic_images(num_images, seed=7)
    with torch.no_grad():
        predicted = net(images / 255).argmax(1)
    is_right = torch.arange(num_images) % 3 == 0
    return images, torch.where(is_right, predicted, (predicted + 1) % 10)


def count_plainly(net, data, indices):
    X, y = ddp.pick(data, indices)
    with torch.no_grad():
        return int((net(X).argmax(1) == y).sum())


def count_with_padding(net, data, worker):
    """Wrong: `DistributedSampler` gives some images to two ranks."""
    num_images = len(data[1])
    place = {"num_replicas": worker.world_size, "rank": worker.rank}
    mine = torch.tensor(list(DistributedSampler(range(num_images), shuffle=False, **place)))
    sums = ddp.sum_over_ranks([count_plainly(net, data, mine), len(mine)])
    return [int(value) for value in sums]


def evaluate(worker, count):
    net = evaluated_net()
    return {n: count(net, evaluated_data(net, n), worker) for n in EVALUATED_SIZES}


def batch_norm_net():
    torch.manual_seed(5)
    return resnet18(width=8)


def running_means(net):
    return torch.cat([b for name, b in net.named_buffers() if name.endswith("running_mean")])


def batch_statistics(worker):
    """Return running means after one pass: this rank's own, DDP's by default, and averaged."""
    X, _ = ddp.pick(ddp.synthetic_images(36), torch.arange(worker.rank, 36, worker.world_size))
    by_default = DistributedDataParallel(batch_norm_net())
    by_default(X)
    by_default.eval()(X)  # a pass begins with handing out the buffers of rank 0
    ours = batch_norm_net()
    ddp.wrap_model(ours, worker.device)(X)
    own = running_means(ours).clone()
    ddp.average_buffers(ours)
    averaged = running_means(ours)
    return {"own": own, "default": running_means(by_default), "averaged": averaged}


def gather(value):
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def run_all(worker):
    results = {"weights": {name: train_scenario(name, worker) for name in SCENARIOS}}
    results["fingerprints"] = gather(
        {name: ddp.fingerprint(state) for name, state in results["weights"].items()}
    )
    results["wrong"] = train_wrongly(worker)
    results["counts"] = gather(evaluate(worker, train_ddp.count_correct))
    results["padded counts"] = evaluate(worker, count_with_padding)
    results["statistics"] = gather(batch_statistics(worker))
    for name, step in [("no_sync", train_ddp.train_step), ("sync", step_without_no_sync)]:
        results[f"messages, {name}"] = count_messages(step, worker, accumulate=3)
    return results


def main(path, *args):
    torch.set_num_threads(1)
    with ddp.process_group("cpu") as worker:
        results = run_all(worker)
        if worker.rank == 0:
            torch.save(results, path)
        if args:  # a run to compare the killed ones with
            train_ddp.Job(train_ddp.parse_args(args), worker).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
