"""Deep residual networks of He et al. (2016) as lists of blocks, and programs that train them."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, schedules
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from d2lmini import sim

BLOCKS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
SIDE, CLASSES = 224, 1000


class Bottleneck(nn.Module):
    """Three convolutions and a way around them; the second one strides (version 1.5)."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.way = nn.Sequential(
            *_conv(inputs, width, 1), nn.ReLU(inplace=True),
            *_conv(width, width, 3, stride), nn.ReLU(inplace=True), *_conv(width, outputs, 1),
        )  # fmt: skip
        around = inputs != outputs or stride > 1
        self.around = nn.Sequential(*_conv(inputs, outputs, 1, stride)) if around else None

    def forward(self, x):
        """Add the two ways."""
        return F.relu(self.way(x) + (self.around(x) if self.around is not None else x))


def _conv(inputs, outputs, side, stride=1):
    conv = nn.Conv2d(inputs, outputs, side, stride, side // 2, bias=False)
    return conv, nn.BatchNorm2d(outputs)


def blocks(depth):
    """Return the network's parts in order."""
    parts = [nn.Sequential(*_conv(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))]
    inputs = 64
    for i, count in enumerate(BLOCKS[depth]):
        for j in range(count):
            parts.append(Bottleneck(inputs, 64 * 2**i, 2 if i and not j else 1))
            inputs = 256 * 2**i
    return [*parts, nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, CLASSES))]


def data_parallel(rank, depth, images, dtype):
    """Run a step with DDP, after one to warm up; return its seconds.

    With ``"float16"`` it has automatic mixed precision, and channels last, as in NVIDIA's
    configuration; else `dtype` is ``"tf32"`` or ``"float32"``.
    """
    dist.init_process_group()
    half = dtype == "float16"
    torch.backends.cudnn.allow_tf32 = dtype == "tf32"
    device = torch.accelerator.current_accelerator()
    layout = torch.channels_last if half else torch.contiguous_format
    net = nn.Sequential(*blocks(depth)).to(device, memory_format=layout)
    if dist.get_world_size() > 1:
        net = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    x = torch.empty(images, 3, SIDE, SIDE, device=device, memory_format=layout)
    y = torch.zeros(images, dtype=torch.int64, device=device)
    for _ in range(2):
        sim.synchronize()
        start = sim.now()
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.float16, enabled=half):
            loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    sim.synchronize()
    return sim.now() - start


def balance(costs, parts):
    """Cut a list of costs into `parts` runs; return their lengths, the largest sum made small.

    Examples
    --------
    >>> balance([1, 1, 1, 3], 2)
    [3, 1]
    """
    best = {(0, 0): (0.0, [])}
    for end in range(1, len(costs) + 1):
        for part in range(1, min(parts, end) + 1):
            tries = [
                (max(best[start, part - 1][0], sum(costs[start:end])),
                 [*best[start, part - 1][1], end - start])
                for start in range(part - 1, end)
                if (start, part - 1) in best
            ]  # fmt: skip
            best[end, part] = min(tries)
    return best[len(costs), parts][1]


class Part(nn.Sequential):
    """A partition; it is computed again in the backward pass, except for the last micro-batch."""

    def __init__(self, parts, again):
        super().__init__(*parts)
        self.again = again

    def forward(self, x):
        """Run the partition."""
        self.again -= 1
        if self.again <= 0:
            return super().forward(x)
        return checkpoint(super().forward, x, use_reentrant=False, preserve_rng_state=False)


def pipeline(rank, depth, cuts, images, count):
    """Run a step of GPipe; return its seconds. `cuts` are the lengths of the partitions."""
    dist.init_process_group()
    device, size = torch.accelerator.current_accelerator(), len(cuts)
    parts, first = blocks(depth), sum(cuts[:rank])
    shapes = shapes_of(depth, images)
    part = Part(parts[first : first + cuts[rank]], count if size > 1 or count > 1 else 0).to(device)
    x = torch.empty(count * images, 3, SIDE, SIDE, device=device)
    y = torch.zeros(count * images, dtype=torch.int64, device=device)
    if size > 1:
        ends = [
            torch.empty(shapes[i], device="meta", requires_grad=i > 0)
            for i in (first, first + cuts[rank])
        ]
        stage = PipelineStage(part, rank, size, device, input_args=ends[:1], output_args=ends[1:])
        schedule = schedules.ScheduleGPipe(stage, count, loss_fn=F.cross_entropy)
    start = sim.now()
    if size > 1:
        words = {"target": y} if rank == size - 1 else {}
        schedule.step(*([x] if rank == 0 else []), **words, return_outputs=False)
    else:
        losses = [
            F.cross_entropy(part(a), b) for a, b in zip(x.chunk(count), y.chunk(count), strict=True)
        ]
        for loss in losses[::-1]:
            loss.backward()
    sim.synchronize()
    return sim.now() - start


def shapes_of(depth, images):
    """Return the shape before each of the blocks, and of the result."""
    x = torch.empty(images, 3, SIDE, SIDE, device="meta")
    shapes = [x.shape]
    with torch.device("meta"):
        for part in blocks(depth):
            x = part(x)
            shapes.append(x.shape)
    return shapes
