"""Train an image classifier with one process per device.

One process:

    python train_ddp.py

Two:

    python -m torch.distributed.run --nproc-per-node 2 \\
        --standalone --local-addr 127.0.0.1 train_ddp.py

Two machines with eight GPUs each, restarted when a process dies. The same lines
on both; `first` is the name of one, /shared a folder that both see:

    env TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 \\
        python -m torch.distributed.run --nproc-per-node 8 --nnodes 2 \\
        --rdzv-backend c10d --rdzv-endpoint first:29400 --max-restarts 3 \\
        train_ddp.py --checkpoint /shared/run.pt

Rank 0 prints one JSON object per line. After a restart some steps are done and
printed a second time: the last line counts. JSON has no numbers that are not
finite: these are written as text, "NaN" or "Infinity".
"""

import argparse
import contextlib
import itertools
import math
import os
import time
from dataclasses import asdict, dataclass

import torch
import torch.distributed as dist
from d2lmini import ddp
from d2lmini.resnet import group_norm, resnet18
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn import functional
from tqdm import tqdm


def at_least(low):
    """Return what reads a finite number, a whole one if `low` is an int."""

    def read(text):
        with contextlib.suppress(ValueError):
            value = type(low)(text)
            if low <= value < math.inf:
                return value
        kind = "whole number" if isinstance(low, int) else "finite number"
        problem = f"{text!r} is not a {kind} of at least {low}"
        raise argparse.ArgumentTypeError(problem)

    return read


def parse_args(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--model", choices=["lenet", "resnet18"], default="resnet18")
    add("--width", type=at_least(1), default=64, help="of the first stage")
    add("--norm", choices=["batch", "sync", "group"], default="batch")
    add("--dropout", type=at_least(0.0), default=0.0, help="of LeNet")
    add("--epochs", type=at_least(0), default=10)
    add("--max-steps", type=at_least(1), help="of an epoch; default: no limit")
    add("--batch-size", type=at_least(1), default=256, help="over all ranks")
    add("--accumulate", type=at_least(1), default=1, help="parts of each share")
    add("--lr", type=at_least(0.0), default=0.1)
    add("--warmup", type=at_least(0), default=0, help="steps until --lr is met")
    add("--momentum", type=at_least(0.0), default=0.0)
    add(
        "--precision",
        choices=["auto", "float32", "bfloat16"],
        default="auto",
        help="float32: on GPUs since Ampere, convolutions multiply in TF32 all "
        "the same, unless torch.backends.cudnn.allow_tf32 is set to False",
    )
    add("--device", choices=["auto", "cuda", "cpu"], default="auto")
    add("--deterministic", action="store_true", help="same bits on GPUs")
    add("--seed", type=at_least(0), default=0)
    add("--synthetic", type=at_least(1), metavar="N", help="N made-up images")
    add("--checkpoint", metavar="FILE", help="written after every epoch")
    every = {"type": at_least(1), "metavar": "STEPS"}
    add("--checkpoint-every", **every, help="and in between")
    add("--resume", action="store_true", help="go on from --checkpoint")
    add("--log-every", **every, default=50)
    wait = "seconds to wait for other ranks"
    add("--timeout", type=at_least(1.0), default=60.0, help=wait)
    args = parser.parse_args(argv)
    if args.checkpoint == "":
        parser.error("--checkpoint is empty: give the path of a file")
    if (args.resume or args.checkpoint_every) and not args.checkpoint:
        parser.error("--resume and --checkpoint-every need --checkpoint FILE")
    max_restarts = int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", 0))
    if args.checkpoint and max_restarts > 0:
        args.resume = True  # a job that may be restarted means to go on
    return args


def build_model(args):
    if args.model == "resnet18":
        norm = group_norm if args.norm == "group" else nn.BatchNorm2d
        net = resnet18(width=args.width, norm=norm)
        if args.norm == "sync":
            net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
        return net
    convs = [nn.Conv2d(1, 20, 5), nn.ReLU(), nn.AvgPool2d(2)]
    convs += [nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten()]
    dense = [nn.Linear(800, 128), nn.ReLU(), nn.Dropout(args.dropout)]
    return nn.Sequential(*convs, *dense, nn.Linear(128, 10))


def train_step(
    model, optimizer, X, y, batch_size, accumulate=1, dtype=torch.float32
):
    """Make one update with the mean gradient over a batch.

    X, y are this rank's share of its `batch_size` images. Returns this rank's
    part of the sum of the losses.
    """
    # DDP averages over the ranks as if all had equally many images. So each
    # gives the *sum* over its images times world_size / batch_size: the average
    # of these is the mean over the batch, whatever the shares are.
    scale = dist.get_world_size() / batch_size
    parts = list(zip(X.chunk(accumulate), y.chunk(accumulate), strict=True))
    loss_sum = torch.zeros((), device=X.device)
    optimizer.zero_grad()
    for i, (X_part, y_part) in enumerate(parts):
        is_last = i == len(parts) - 1  # only then are the gradients sent
        with contextlib.nullcontext() if is_last else model.no_sync():
            with ddp.autocast(X.device, dtype):
                y_hat = model(X_part)
                loss = functional.cross_entropy(y_hat, y_part, reduction="sum")
            (loss * scale).backward()
        loss_sum += loss.detach()
    optimizer.step()
    return loss_sum


@torch.no_grad()
def count_correct(net, data, worker, dtype=torch.float32, batch_size=1000):
    """Count the images that are classified right; the ranks share the work."""
    num_images = len(data[1])
    mine = ddp.my_share(num_images, worker.rank, worker.world_size)
    correct = 0
    ddp.average_buffers(net)
    net.eval()
    for indices in mine.split(batch_size):
        X, y = ddp.pick(data, indices)
        with ddp.autocast(X.device, dtype):
            correct += (net(X).argmax(dim=1) == y).sum().item()
    net.train()
    correct, total = ddp.sum_over_ranks([correct, len(mine)], worker.device)
    assert total == num_images, "every image counts exactly once"
    return int(correct)


@dataclass
class Progress:
    """A point between two steps, and what the epoch has summed up so far."""

    epoch: int = 0
    step: int = 0
    images: int = 0
    loss_sum: float = 0.0


class Job:
    """One rank's part of a training job."""

    def __init__(self, args, worker):
        self.args, self.worker = args, worker
        self.train_data, self.test_data = ddp.load_images(
            worker.device, args.synthetic
        )
        images = len(self.train_data[1])
        self.sampler = ddp.ShardedBatchSampler(
            images, args.batch_size, worker.rank, worker.world_size, args.seed
        )
        self.steps = min(len(self.sampler), args.max_steps or len(self.sampler))
        self.dtype, reason = ddp.choose_precision(worker.device, args.precision)
        torch.use_deterministic_algorithms(args.deterministic)

        torch.manual_seed(args.seed)
        self.net = build_model(args).to(worker.device)  # first moved ...
        self.model = ddp.wrap_model(self.net, worker.device)  # ... then wrapped
        self.optimizer = torch.optim.SGD(
            self.net.parameters(), args.lr, momentum=args.momentum
        )
        torch.manual_seed(args.seed + 1 + worker.rank)  # each rank drops others

        config = {k: v for k, v in vars(args).items() if k not in MAY_CHANGE}
        config |= {"dtype": str(self.dtype), "device": worker.device.type}
        self.config = config | {"images": images, "steps": self.steps}
        about = worker.describe()
        about |= {"precision_reason": reason, "config": self.config}
        worker.report("start", **about)

    def run(self):
        path, resume = self.args.checkpoint, self.args.resume
        saved = ddp.begin_or_resume(
            path, resume, self.net, self.optimizer, self.config
        )
        at = Progress(**saved) if saved is not None else Progress()
        weights = ddp.fingerprint(self.net.state_dict())
        self.worker.report("begin", **asdict(at), weights=weights)
        for epoch in range(at.epoch, self.args.epochs):
            begin, images_before = time.perf_counter(), at.images
            self.train_epoch(at)
            seconds = time.perf_counter() - begin
            self.report_epoch(at, (at.images - images_before) / seconds)
            at = Progress(epoch + 1)
            self.save(at)
        weights = ddp.fingerprint(self.net.state_dict())
        self.worker.report("end", weights=weights)

    def train_epoch(self, at):
        """Train from the point `at` to the epoch's end; `at` moves along."""
        self.sampler.set_epoch(at.epoch, at.step)
        my_loss = 0.0
        for indices in self.progress_bar(at):
            batch_size = self.sampler.size(at.step)
            my_loss += self.step(indices, batch_size, at)
            at.step += 1
            at.images += batch_size
            logs = is_multiple(at.step, self.args.log_every)
            saves = is_multiple(at.step, self.args.checkpoint_every)
            if logs or saves or at.step == self.steps:
                at.loss_sum += self.sum_over_ranks(my_loss)
                my_loss = 0.0
            if logs:
                loss = at.loss_sum / at.images
                self.worker.report("step", **asdict(at), loss=loss)
            if saves and at.step < self.steps:
                self.save(at)

    def step(self, indices, batch_size, at):
        args, net, optimizer = self.args, self.model, self.optimizer
        steps_done = at.epoch * self.steps + at.step
        rate = args.lr * min(1, (steps_done + 1) / max(1, args.warmup))
        optimizer.param_groups[0]["lr"] = rate
        X, y = ddp.pick(self.train_data, indices)
        return train_step(
            net, optimizer, X, y, batch_size, args.accumulate, self.dtype
        )

    def progress_bar(self, at):
        """Yield this rank's shares from `at` on; rank 0 shows how far it is."""
        hide = None if self.worker.rank == 0 else True  # None: if unwatched
        return tqdm(
            itertools.islice(self.sampler, self.steps - at.step),
            desc=f"epoch {at.epoch}",
            unit="step",
            total=self.steps,
            initial=at.step,
            disable=hide,
        )

    def report_epoch(self, at, images_per_s):
        total = len(self.test_data[1])
        correct = count_correct(
            self.net, self.test_data, self.worker, self.dtype
        )
        self.worker.report(
            "epoch",
            **asdict(at),
            loss=at.loss_sum / at.images,
            test_correct=correct,
            test_images=total,
            test_accuracy=correct / total,
            images_per_s=images_per_s,
        )

    def save(self, at):
        path = self.args.checkpoint
        if path:
            ddp.save_checkpoint(
                path, self.net, self.optimizer, asdict(at), self.config
            )

    def sum_over_ranks(self, value):
        return ddp.sum_over_ranks([value], self.worker.device)[0]


# What a resumed run need not have in common with the run that it goes on from.
MAY_CHANGE = ["epochs", "checkpoint", "checkpoint_every", "resume"]
MAY_CHANGE += ["log_every", "timeout", "precision"]  # the config has the dtype


def is_multiple(step, interval):
    return interval is not None and step % interval == 0


@record
def main():
    args = parse_args()
    if args.deterministic:  # what cuBLAS needs for it, before it is first used
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    with ddp.process_group(args.device, args.timeout) as worker:
        Job(args, worker).run()


if __name__ == "__main__":
    main()
