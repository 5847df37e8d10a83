"""What the caching allocator would reserve: PyTorch's rules, and a model that joins at once."""

import random

import pytest
import torch
from torch import nn

import simgpu as sim
from simgpu.clock.segments import MIB, Segments

PLENTY = 2**50


class Reference:
    """PyTorch's rules written down plainly: segments are lists of [size, is free]."""

    def __init__(self):
        self.segments = []  # (is small, pieces in order)
        self.peak = 0

    def allocate(self, size):
        """Return the piece, which is a list, so that it has an identity."""
        small = size <= MIB
        fitting = [
            (piece[0], number, at)
            for number, (kind, pieces) in enumerate(self.segments) if kind == small
            for at, piece in enumerate(pieces) if piece[1] and piece[0] >= size
        ]  # fmt: skip
        if fitting:
            _, number, at = min(fitting)
        else:
            whole = (
                2 * MIB
                if small
                else 20 * MIB
                if size < 10 * MIB
                else -(-size // (2 * MIB)) * 2 * MIB
            )
            self.segments.append((small, [[whole, True]]))
            number, at = len(self.segments) - 1, 0
            self.peak = max(self.peak, self.reserved)
        pieces = self.segments[number][1]
        piece = pieces[at]
        piece[1] = False
        rest = piece[0] - size
        if rest >= (512 if small else MIB + 1):
            piece[0] = size
            pieces.insert(at + 1, [rest, True])
        return piece

    def free(self, piece):
        """Free a piece and join it with its free neighbours at once."""
        piece[1] = True
        (pieces,) = [p for _, p in self.segments if any(piece is other for other in p)]
        joined = []
        for other in pieces:
            if joined and joined[-1][1] and other[1]:
                joined[-1][0] += other[0]
            else:
                joined.append(other)
        pieces[:] = joined

    @property
    def reserved(self):
        """Bytes of all segments."""
        return sum(piece[0] for _, pieces in self.segments for piece in pieces)


def replay(trace, segments, *capacity):
    """Allocate (size) and free (the number of an allocation, negative) in the order of a trace."""
    pieces = []
    for event in trace:
        if event > 0:
            pieces.append(segments.allocate(event, *capacity))
        else:
            segments.free(pieces[~event])
    return segments.peak


def random_trace(seed, events=400):
    draw = random.Random(seed)
    trace, alive, count = [], [], 0
    sizes = [512 * draw.randint(1, 2 ** draw.randint(1, 15)) for _ in range(12)]
    for _ in range(events):
        if alive and draw.random() < 0.48:
            trace.append(~alive.pop(draw.randrange(len(alive))))
        else:
            trace.append(draw.choice(sizes))
            alive.append(count)
            count += 1
    return trace


@pytest.mark.slow
def test_random_programs_reserve_nearly_what_joining_at_once_would():
    ratios = []
    for seed in range(60):
        trace = random_trace(seed)
        ratios.append(replay(trace, Segments(), PLENTY) / replay(trace, Reference()))
    assert sum(abs(ratio - 1) < 0.02 for ratio in ratios) >= 48
    assert min(ratios) > 0.85


def recorded(run, monkeypatch):
    """Return the trace of what a program allocates."""
    trace, numbers = [], {}
    allocate, free = Segments.allocate, Segments.free

    def note(self, size, capacity):
        piece = allocate(self, size, capacity)
        numbers[id(piece)] = sum(event > 0 for event in trace)
        trace.append(size)
        return piece

    def note_free(self, piece):
        trace.append(~numbers[id(piece)])
        free(self, piece)

    monkeypatch.setattr(Segments, "allocate", note)
    monkeypatch.setattr(Segments, "free", note_free)
    run()
    monkeypatch.undo()
    return trace


def train():
    """Three steps of a small Transformer with batches of different lengths."""
    (device,) = sim.configure(1, numerics=False)
    net = nn.Sequential(
        *(nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True) for _ in range(3))
    )
    net = net.to(device)
    optimizer = torch.optim.AdamW(net.parameters())
    for tokens in (128, 384, 200):
        net(torch.zeros(8, tokens, 256, device=device)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.slow
def test_a_training_reserves_what_joining_at_once_would(monkeypatch):
    trace = recorded(train, monkeypatch)
    assert len(trace) > 1000
    ours, reference = replay(trace, Segments(), PLENTY), replay(trace, Reference())
    assert ours == pytest.approx(reference, rel=0.1)


def test_sizes_of_segments():
    (device,) = sim.configure(1)
    found = []
    for mib in (0.001, 2, 12, 13):
        x = torch.empty(int(mib * MIB), dtype=torch.uint8, device=device)
        found.append(torch.sim.memory_reserved(device) // MIB)
        assert torch.sim.memory_reserved(device) >= sim.memory_allocated(device)
        del x
    # 12 MiB fit the freed segment of 20 MiB, of which 8 MiB stay; 13 MiB fit it again.
    assert found == [2, 22, 22, 22]


def test_freed_memory_stays_reserved_until_the_cache_is_emptied():
    (device,) = sim.configure(1)
    kept = torch.empty(MIB, dtype=torch.uint8, device=device)
    gone = torch.empty(100 * MIB, dtype=torch.uint8, device=device)
    del gone
    assert sim.memory_allocated(device) == MIB
    assert torch.sim.memory_reserved(device) == 102 * MIB
    torch.sim.empty_cache()
    assert torch.sim.memory_reserved(device) == 2 * MIB
    assert torch.sim.max_memory_reserved(device) == 102 * MIB
    torch.sim.reset_peak_memory_stats(device)
    assert torch.sim.max_memory_reserved(device) == 2 * MIB
    free, total = torch.sim.mem_get_info(device)
    assert total - free == 2 * MIB
    del kept


def test_a_fragmented_device_refuses_what_the_sum_would_allow():
    (device,) = sim.configure(1, gpu="v100", numerics=False)  # 16 GiB

    def tensor(gib):
        return torch.empty(int(gib * 2**30), dtype=torch.uint8, device=device)

    apart = [tensor(1) for _ in range(16)]
    del apart[::2]  # each a segment, which the allocator gives back
    assert tensor(8).nbytes == 8 * 2**30
    del apart
    torch.sim.empty_cache()
    tensor(15.9)  # one segment, freed at once, which the next tensors cut up
    parts = [tensor(1.5) for _ in range(10)]
    del parts[::2]
    with pytest.raises(torch.OutOfMemoryError, match=r"8\.40 GiB is reserved by PyTorch but"):
        tensor(3)
    assert tensor(1.5).nbytes == 1.5 * 2**30
