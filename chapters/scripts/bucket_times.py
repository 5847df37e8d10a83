"""Measure what the size of gradient buckets does to the time of a step.

    python -m torch.distributed.run --nproc-per-node 2 \\
        --standalone --local-addr 127.0.0.1 bucket_times.py --mib 0.1 1 25

Prints one JSON object per bucket size: how many messages a step sends, the
median seconds per step, and a hash of the gradients, which must not change.
"""

import argparse
import statistics

import torch
import torch.distributed as dist
from d2lmini import Timer, ddp
from d2lmini.resnet import resnet18
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--mib", type=float, nargs="+", default=[0.1, 1, 25])
    add("--width", type=int, default=16, help="of ResNet-18's first stage")
    add("--batch-size", type=int, default=16, help="of each rank")
    add("--steps", type=int, default=5)
    add("--device", choices=["auto", "cuda", "cpu"], default="auto")
    return parser.parse_args()


def make_model(width, mib, device):
    torch.manual_seed(0)
    net = resnet18(width=width).to(device)
    return DistributedDataParallel(net, bucket_cap_mb=mib)


def backward(model, X, y):
    model.zero_grad()
    F.cross_entropy(model(X), y).backward()


def count_messages(model, X, y):
    """Count the buckets of a step; DDP settles their order in the first."""
    seen = []

    def hook(_, bucket):
        seen.append(bucket.index())
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return future.then(lambda done: done.value()[0] / dist.get_world_size())

    model.register_comm_hook(None, hook)
    backward(model, X, y)
    seen.clear()
    backward(model, X, y)
    return len(seen)


def main():
    args = parse_args()
    with ddp.process_group(args.device) as worker:
        generator = torch.Generator().manual_seed(worker.rank)
        X = torch.rand(args.batch_size, 1, 28, 28, generator=generator)
        y = torch.randint(10, (args.batch_size,), generator=generator)
        X, y = X.to(worker.device), y.to(worker.device)
        for mib in args.mib:
            model = make_model(args.width, mib, worker.device)
            messages = count_messages(model, X, y)
            model = make_model(args.width, mib, worker.device)
            timer = Timer(worker.device)
            for _ in range(2):  # warm-up
                backward(model, X, y)
            for _ in range(args.steps):
                timer.start()
                backward(model, X, y)
                timer.stop()
            grads = {n: p.grad for n, p in model.named_parameters()}
            worker.report(
                "buckets",
                mib=mib,
                messages=messages,
                seconds=statistics.median(timer.times),
                gradients=ddp.fingerprint(grads),
            )


if __name__ == "__main__":
    main()
