"""Train a small vision transformer with DDP on photographs that workers decode.

Two processes, on the GPUs that there are, else on the CPU:

    torchrun --standalone --nproc-per-node 2 loader.py --workers 1

Eight simulated GPUs, fed by the cores of this machine:

    simgpu run --nproc-per-node 8 --gpu a100 --shapes-only --ranks 0 \\
        --loader measured loader.py --batch-size 128 --workers 2
"""

import argparse
import io
import os
from itertools import islice

import numpy as np
import torch
import torch.distributed as dist
from PIL import Image
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Photographs(Dataset):
    """Made-up photographs, kept as JPEG files in memory."""

    def __init__(self, num_images=4096, size=224, num_files=8):
        self.num_images, self.size = num_images, size
        generator = np.random.default_rng(0)
        self.files = [make_jpeg(generator) for _ in range(num_files)]

    def __len__(self):
        return self.num_images

    def __getitem__(self, i):
        file = io.BytesIO(self.files[i % len(self.files)])
        picture = Image.open(file).convert("RGB")
        left, top = torch.randint(100, (2,)).tolist()
        box = left, top, left + 275, top + 275
        size = self.size, self.size
        picture = picture.resize(size, Image.Resampling.BILINEAR, box)
        pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
        return pixels.float() / 255, i % 10


def make_jpeg(generator, width=500, height=375):
    """Return the bytes of a file: large shapes, and some grain."""
    dots = generator.integers(256, size=(12, 16, 3), dtype=np.uint8)
    shapes = Image.fromarray(dots).resize((width, height))
    grain = generator.normal(0, 8, (height, width, 3))
    pixels = np.clip(np.asarray(shapes) + grain, 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=95)
    return file.getvalue()


class ResumableSampler(DistributedSampler):
    """Leaves out what this rank had trained on when the job ended."""

    done = 0  # examples

    def __iter__(self):
        return islice(super().__iter__(), self.done, None)

    def __len__(self):
        return super().__len__() - self.done


class Transformer(nn.Module):
    def __init__(self, size, width, depth, patch=16, num_classes=10):
        super().__init__()
        self.embed = nn.Conv2d(3, width, patch, stride=patch)
        self.place = nn.Parameter(torch.zeros((size // patch) ** 2, width))
        layer = nn.TransformerEncoderLayer(
            width,
            max(1, width // 64),  # heads
            4 * width,
            dropout=0.0,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        how = {"enable_nested_tensor": False}
        self.layers = nn.TransformerEncoder(layer, depth, **how)
        self.head = nn.Linear(width, num_classes)

    def forward(self, X):
        tokens = self.embed(X).flatten(2).transpose(1, 2) + self.place
        return self.head(self.layers(tokens).mean(1))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--batch-size", type=int, default=8, help="of a rank")
    add("--workers", type=int, default=2, help="of a rank")
    add("--prefetch-factor", type=int, default=2)
    add("--plain-copies", action="store_true", help="pin no memory")
    add("--images", type=int, default=4096)
    add("--epochs", type=int, default=1)
    add("--steps", type=int, help="end after this many steps")
    add("--size", type=int, default=224, help="of an image, in pixels")
    add("--width", type=int, default=384)
    add("--depth", type=int, default=12)
    add("--save", metavar="FILE", help="write a checkpoint at the end")
    add("--resume", metavar="FILE")
    add("--cpu", action="store_true", help="use no GPU")
    return parser.parse_args()


def main():
    args = parse()
    device = torch.device("cpu")
    if torch.accelerator.is_available() and not args.cpu:
        torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
        device = torch.accelerator.current_accelerator()
    dist.init_process_group("gloo" if args.cpu else None)
    rank, on_gpu = dist.get_rank(), device.type != "cpu"

    torch.manual_seed(0)  # the same weights on every rank
    net = Transformer(args.size, args.width, args.depth).to(device)
    at = {"epoch": 0, "done": 0}  # examples of the epoch, each rank's
    if args.resume:
        saved = torch.load(args.resume, map_location=device)
        net.load_state_dict(saved["net"])
        at = saved["at"]
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    torch.manual_seed(1 + rank)  # other crops on every rank
    data = Photographs(args.images, args.size)
    sampler = ResumableSampler(data)
    loader = DataLoader(
        data,
        args.batch_size,
        sampler=sampler,
        num_workers=args.workers,
        prefetch_factor=args.prefetch_factor if args.workers else None,
        persistent_workers=args.workers > 0,
        pin_memory=on_gpu and not args.plain_copies,
        drop_last=True,
    )
    losses = []
    while at["epoch"] < args.epochs and len(losses) != args.steps:
        sampler.set_epoch(at["epoch"])  # another order in every epoch
        sampler.done = at["done"]
        for images, labels in loader:
            images = images.to(device, non_blocking=True)
            labels = labels.to(device, non_blocking=True)
            with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
                loss = cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            at["done"] += args.batch_size
            if len(losses) == args.steps:
                break
        else:
            at = {"epoch": at["epoch"] + 1, "done": 0}

    means = torch.stack(losses) / dist.get_world_size()
    dist.all_reduce(means)
    if rank == 0:
        for step, loss in enumerate(means.tolist()):
            print(f"step {step}: loss {loss:.6f}")
        if args.save:
            torch.save({"net": net.state_dict(), "at": at}, args.save)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
