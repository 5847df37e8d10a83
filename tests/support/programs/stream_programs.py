"""Random programs over several streams and simulated GPUs."""

import torch

import simgpu as sim

ACTIONS = ("kernel", "product", "copy", "peer", "wait_stream", "event", "host", "query", "drop")


def run(random, devices, length):
    """Do `length` random things on the devices; return the tensors that are left."""
    streams = [(d, s) for d in devices for s in (sim.default_stream(d), sim.Stream(d))]
    events = [sim.Event() for _ in range(3)]
    tensors = [torch.ones(64, 64, device=d) for d in devices]
    for _ in range(length):
        action = random.choice(ACTIONS)
        device, stream = random.choice(streams)
        with stream:
            _act(action, random, device, stream, streams, events, tensors)
    return tensors


def _act(action, random, device, stream, streams, events, tensors):
    here = [t for t in tensors if t.device == device]
    size = random.choice((16, 200, 700))
    if action == "kernel" or (not here and action in ("product", "peer", "copy")):
        tensors.append(torch.ones(size, size, device=device))
    elif action == "product":
        x = random.choice(here)
        tensors.append(x @ x)
    elif action == "copy":
        host = sim.empty_pinned(size, size)
        tensors.append(host.to(device, non_blocking=True))
        random.choice(here).to("cpu", non_blocking=random.random() < 0.5)
    elif action == "peer":
        tensors.append(random.choice(tensors).to(random.choice(streams)[0]))
    elif action == "wait_stream":
        stream.wait_stream(random.choice(streams)[1])
    elif action == "event":
        event = random.choice(events)
        if event._device in (None, stream._device):
            event.record(stream)
        random.choice(streams)[1].wait_event(event)
    elif action == "host":
        random.choice((stream.synchronize, sim.synchronize))()
    elif action == "query":
        stream.query()
    elif action == "drop" and tensors:
        del tensors[random.randrange(len(tensors))]
