"""The book's main conclusions, each as a number that a GPU and a link give: simulated once more."""

from dataclasses import replace

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from d2lmini import Event, Stream, Timer, get_params, init_params, sim, train_batch
from d2lmini.resnet import resnet18
from simgpu.network.cluster import build_cluster
from simgpu.network.networks import find_network
from simgpu.plan.options import make_parser
from simgpu.plan.request import request_of
from simgpu.plan.simulate import simulate
from simgpu.plan.step.job import Model

STEPS = 3
SIDE = 4000
TIMES = 50
LATENCY_FACTOR = 1.0  # of the switches between nodes: the study changes it
SMALL = Model(4096, 32, 4, 4096, 32000, kv_heads=16, inner=11008, gated=True, tied=False)
EXPERTS = replace(SMALL, hidden=2048, heads=16, inner=4096, experts=16, active=2)


def additions(gpu, link):
    """Return how many times as long 100,000 numbers take to add as 1,000 do."""
    with sim.machine(1, gpu=gpu, link=link, numerics=False) as devices:
        few, many = (torch.empty(count, device=devices[0]) for count in (10**3, 10**5))
        short, long = (
            _seconds(devices, lambda x=x: [x + x for _ in range(TIMES)]) for x in (few, many)
        )
    return long / short


def products(gpu, link):
    """Return how much faster two GPUs do 50 products of 4000 x 4000 each than one does all 100."""
    with sim.machine(2, gpu=gpu, link=link, numerics=False) as devices:
        xs = [torch.empty(SIDE, SIDE, device=device) for device in devices]
        one = _seconds(devices, lambda: [xs[0] @ xs[0] for _ in range(2 * TIMES)])
        both = _seconds(devices, lambda: [x @ x for x in xs for _ in range(TIMES)])
    return one / both


def copies(gpu, link):
    """Return how many times as long as a product of 4000 x 4000 its way to the host takes."""
    with sim.machine(1, gpu=gpu, link=link, numerics=False) as (device,):
        x = torch.empty(SIDE, SIDE, device=device)
        product, copy = (_seconds([device], work) for work in (lambda: x @ x, x.cpu))
    return copy / product


def hidden(gpu, link):
    """Return how long 50 products and the copies of their results take side by side.

    As a multiple of the longer of the two alone. The copies go to pinned memory, on a stream of
    their own.
    """
    with sim.machine(1, gpu=gpu, link=link, numerics=False) as (device,):
        x, side = torch.empty(SIDE, SIDE, device=device), Stream(device)
        host = sim.empty_pinned(SIDE, SIDE)

        def both():
            for _ in range(TIMES):
                y, done = x @ x, Event(device)
                done.record()
                side.wait_event(done)
                with side:
                    host.copy_(y, non_blocking=True)

        alone = (
            _seconds([device], lambda: [x @ x for _ in range(TIMES)]),
            _seconds([device], lambda: [host.copy_(x, non_blocking=True) for _ in range(TIMES)]),
        )
        return _seconds([device], both) / max(alone)


def lenet(gpu, link, images, per_gpu):
    """Return the speed-up of training LeNet on two GPUs: images a second over those of one GPU.

    In one process, as `train_batch` does; `images` is the batch of both, or that of each GPU.
    """
    rates = []
    for k in (1, 2):
        size = k * images if per_gpu else images
        with sim.machine(k, gpu=gpu, link=link, numerics=False) as devices:
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


def resnet(gpu, link, per_gpu):
    """Return how many times as many images a second ResNet-18 sees with DDP on two GPUs as on one.

    A process for each GPU; `per_gpu` images for each.
    """
    one, two = (max(sim.spawn(_step, (per_gpu,), k, **_parts(gpu, link))) for k in (1, 2))
    return 2 * one / two


def overlap(gpu, link, per_gpu):
    """Return how many times as long a step of ResNet-18 takes if nothing overlaps as with DDP.

    Two nodes of one GPU each, joined by Ethernet of 100 Gbit/s. Without DDP the gradients are
    summed after the backward pass, in one message.
    """
    nodes = _parts(gpu, link) | {"nodes": 2, "network": _network("ethernet100")}
    ddp, after = (max(sim.spawn(_step, (per_gpu, hide), 2, **nodes)) for hide in (True, False))
    return after / ddp


def pcie(gpu, link, per_gpu):
    """Return how many times as long a step of ResNet-18 takes in one bucket as with DDP's.

    Eight GPUs over PCIe, whose copies share the host's rate.
    """
    link = replace(link, name="pcie4", peer_bandwidth=link.bandwidth)
    how = _parts(gpu, link) | {"ranks": [0]}
    one, several = (max(sim.spawn(_step, (per_gpu, True, mib), 8, **how)) for mib in (1000, None))
    return one / several


def _parts(gpu, link):
    return {"gpu": gpu, "link": link, "numerics": False}


def _step(rank, num_images, ddp=True, bucket=None):
    """Return the seconds of a step, after two for warming up (the second makes the buckets).

    `bucket` is DDP's limit in MiB, None its default.
    """
    dist.init_process_group()
    device = torch.accelerator.current_accelerator()
    net = resnet18().to(device)
    several = dist.get_world_size() > 1
    if several and ddp:
        net = DistributedDataParallel(net, bucket_cap_mb=bucket)
    gradients = torch.empty(sum(p.numel() for p in net.parameters()), device=device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    X = torch.empty(num_images, 1, 28, 28, device=device)
    for _ in range(3):
        sim.synchronize()
        start = sim.now()
        optimizer.zero_grad()
        net(X).logsumexp(1).mean().backward()
        if several and not ddp:
            dist.all_reduce(gradients)
        optimizer.step()
    sim.synchronize()
    return sim.now() - start


def model(gpu, link, words, than, network=None, sizes=SMALL):
    """Return how many times as long a step of a model takes with some options as with others.

    Seconds of a step over its sequences; `words` and `than` are options of `simgpu plan`, `network`
    joins nodes of eight GPUs.
    """
    other = _planned(gpu, link, than, network, sizes)
    return _planned(gpu, link, words, network, sizes) / other


def _planned(gpu, link, words, network, sizes):
    args = make_parser().parse_args(["model", *words.split()])
    job = request_of(args, sizes).job()
    joined = None if network is None else _network(network)
    cluster = build_cluster(job.cluster.world_size, gpu, link, job.cluster.nodes, joined)
    return simulate(replace(job, cluster=cluster)).seconds / job.sequences


def _network(name):
    found = find_network(name)
    return replace(found, latency=LATENCY_FACTOR * found.latency)
