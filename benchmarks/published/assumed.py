"""What becomes of the book's conclusions if an assumed constant is another: simulated once more."""

from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from d2lmini import Timer, get_params, init_params, sim, train_batch
from d2lmini.resnet import resnet18
from d2lmini.sim.hardware import assumptions

BATCH = 256
STEPS = 3


def _v100(launch):
    """Return what is simulated: a V100 without NVLink, as the stored page has it."""
    gpu = replace(sim.find_gpu("v100"), launch_overhead=launch)
    return {"gpu": gpu, "link": "pcie3", "numerics": False}


def products(launch):
    """Return how much faster two GPUs do 50 products of 4000 x 4000 each than one does all 100."""
    with sim.machine(2, **_v100(launch)) as devices:
        xs = [torch.empty(4000, 4000, device=device) for device in devices]
        one = _seconds(devices, lambda: [xs[0] @ xs[0] for _ in range(100)])
        both = _seconds(devices, lambda: [x @ x for x in xs for _ in range(50)])
    return one / both


def lenet(launch, per_gpu=False):
    """Return how many times as many images a second two GPUs train LeNet on as one does.

    As `train_batch` does, in one process: 256 images in all, or for each GPU.
    """
    rates = []
    for k in (1, 2):
        size = k * BATCH if per_gpu else BATCH
        with sim.machine(k, **_v100(launch)) as devices:
            replicas = [get_params(init_params(), device) for device in devices]
            X, y = torch.zeros(size, 1, 28, 28), torch.zeros(size).long()
            batch = X, y, replicas, devices, 0.2
            train_batch(*batch)  # warm-up
            seconds = _seconds(devices, lambda batch=batch: train_batch(*batch))
        rates.append(size / seconds)
    return rates[1] / rates[0]


def _seconds(devices, work):
    timer = Timer(*devices)
    timer.start()
    for _ in range(STEPS):
        work()
    return float(timer.stop()) / STEPS


def resnet(launch, per_gpu):
    """Return how many times as many images a second ResNet-18 sees with DDP on two GPUs as on one.

    A process for each GPU; `per_gpu` images for each.
    """
    one, two = (max(sim.spawn(_ddp_step, (per_gpu,), k, **_v100(launch))) for k in (1, 2))
    return 2 * one / two


def _ddp_step(rank, num_images):
    """Return the seconds of a step, after two for warming up (the second makes the buckets)."""
    dist.init_process_group()
    device = torch.accelerator.current_accelerator()
    net = resnet18().to(device)
    net = DistributedDataParallel(net) if dist.get_world_size() > 1 else net
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    X = torch.empty(num_images, 1, 28, 28, device=device)
    for _ in range(3):
        sim.synchronize()
        start = sim.now()
        optimizer.zero_grad()
        net(X).logsumexp(1).mean().backward()
        optimizer.step()
    sim.synchronize()
    return sim.now() - start


def copies(rate):
    """Return how many times as long as a product of 4000 x 4000 its way to the host takes."""
    link = replace(sim.find_link("pcie3"), pageable_to_host=rate)
    with sim.machine(1, gpu="v100", link=link, numerics=False) as (device,):
        x = torch.empty(4000, 4000, device=device)
        product, copy = (_seconds([device], work) for work in (lambda: x @ x, x.cpu))
    return copy / product


@dataclass(frozen=True)
class Study:
    """A constant, what else it might be, and what then becomes of conclusions.

    Attributes
    ----------
    constant : str
        Its name in words.
    unit : str
    values : tuple of float
    preset : float
        The value that the presets have.
    title : str
        What the functions return, in words.
    conclusions : tuple of tuple
        (what, function of the value).
    """

    constant: str
    unit: str
    values: tuple
    preset: float
    title: str
    conclusions: tuple

    def rows(self):
        """Return ``{what: [result for each of the values]}``; simulates all of them."""
        return {what: [find(value) for value in self.values] for what, find in self.conclusions}


LAUNCHES = Study(
    "launch overhead", "s", (2e-6, 5e-6, 10e-6, 15e-6), assumptions.LAUNCH_OVERHEAD,
    "two GPUs are so many times as fast as one",
    (
        ("100 products of 4000 x 4000, half on each GPU", products),
        ("LeNet, one process, 256 images in all", lenet),
        ("LeNet, one process, 256 images for each GPU", partial(lenet, per_gpu=True)),
        ("ResNet-18, DDP, 32 images for each GPU", partial(resnet, per_gpu=32)),
        ("ResNet-18, DDP, 256 images for each GPU", partial(resnet, per_gpu=256)),
    ),
)  # fmt: skip
PAGEABLE = Study(
    "rate of copies to ordinary host memory", "B/s", (1.5e9, 3e9, 6e9),
    assumptions.PAGEABLE_TO_HOST, "the copy takes so many times as long as the product",
    (("a product of 4000 x 4000 on a V100, copied to the host", copies),),
)  # fmt: skip
STUDIES = (LAUNCHES, PAGEABLE)
