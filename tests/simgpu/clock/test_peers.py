"""Copies between simulated GPUs, and sums over them: the times of the formulas."""

import pytest
import torch
from support.programs.clock_programs import PROMPT, allreduce, elapsed, settle, spans, square

import simgpu as sim


@pytest.mark.parametrize("link", ["nvlink2", "pcie4_staged"])
def test_peer_copies_wait_for_both_sides(link):
    d0, d1 = sim.configure(2, link=link, numerics=False)
    x0, x1 = square(d0), square(d1)
    spec = sim.get_link_spec()
    settle()
    x0 @ x0
    x1 @ x1
    x1 @ x1
    x0.to(d1)
    x0 + 1
    x1 + 1
    sim.synchronize()
    (copy,) = [s for s in sim.trace() if s.name == "copy sim:0 -> sim:1" and s.device != "host"]
    assert copy.start >= spans(device="sim:1", name="mm")[-1].end
    arrived = copy.start + spec.peer_seconds(x0.nbytes)
    for device in ("sim:0", "sim:1"):
        assert spans(device=device, name="add")[0].start == pytest.approx(arrived)
    assert copy.engine == ("p2p" if spec.peer else "d2h")
    assert len(spans(name="receive sim:0 -> sim:1", engine="h2d")) == (0 if spec.peer else 1)


def ring_allreduce(data, sends, receives):
    """k - 1 steps that add a k-th to the neighbour, k - 1 that pass the sums on."""
    k = len(data)
    parts = [tensor.chunk(k) for tensor in data]
    for step in range(2 * (k - 1)):
        for i in range(k):
            sends[i].wait_stream(receives[i])
        for i in range(k):
            j, part = (i + 1) % k, (i - step) % k
            with sends[i], receives[j]:
                if step < k - 1:
                    parts[j][part].add_(parts[i][part].to(data[j].device))
                else:
                    parts[j][part].copy_(parts[i][part])


@pytest.mark.parametrize("k", range(2, 17))
def test_allreduces_take_what_the_formulas_say(k):
    devices = sim.configure(k, gpu=PROMPT, link="nvlink2", numerics=False)
    link, n = sim.get_link_spec(), k * 2**22
    data = [torch.empty(n, device=d) for d in devices]

    def copy(size):
        return link.peer_seconds(4 * size)

    def add(size):
        return PROMPT.seconds(0, 3 * 4 * size, "float32")

    star = elapsed(lambda: allreduce(data))
    assert star == pytest.approx((k - 1) * (2 * copy(n) + add(n)), rel=1e-9)
    assert len(spans(engine="p2p")) == 2 * (k - 1)

    sends, receives = ([sim.Stream(d) for d in devices] for _ in range(2))
    ring = elapsed(lambda: ring_allreduce(data, sends, receives))
    assert ring == pytest.approx((k - 1) * (2 * copy(n // k) + add(n // k)), rel=1e-9)
    assert len(spans(engine="p2p")) == 2 * k * (k - 1)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_allreduces_sum(k):
    devices = sim.configure(k)
    for reduce in ("star", "ring"):
        data = [torch.arange(2.0 * k * k, device=d) * (i + 1) for i, d in enumerate(devices)]
        expected = sum(t.cpu() for t in data)
        if reduce == "star":
            allreduce(data)
        else:
            streams = [[sim.Stream(d) for d in devices] for _ in range(2)]
            for stream in streams[1]:
                stream.wait_stream(sim.default_stream(stream.device))
            ring_allreduce(data, *streams)
        assert all(torch.equal(t.cpu(), expected) for t in data)
