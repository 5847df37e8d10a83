"""Ring and buckets: same result as the plain sum, and the number of messages they promise."""

import nbformat
import pytest
import torch
from support.paths import CHAPTERS
from torch.overrides import TorchFunctionMode

from d2lmini import allreduce, gpus, sim
from d2lmini.checks import scratch
from d2lmini.collectives import allreduce_bucketed, allreduce_ring


class Messages(TorchFunctionMode):
    """Collects the sizes of what is copied from device to device."""

    def __init__(self):
        self.sizes = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func.__name__ in ("to", "copy_"):
            self.sizes.append(args[0].numel())
        return func(*args, **(kwargs or {}))


def draw(k, *shape):
    generator = torch.Generator().manual_seed(k)
    return [torch.randint(-9, 9, shape, generator=generator).double() for _ in range(k)]


@pytest.mark.parametrize("k", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("shape", [(1,), (7,), (8, 3)])
def test_ring_sums_in_place(k, shape):
    data = draw(k, *shape)
    wanted = torch.stack(data).sum(0)
    allreduce_ring(data)
    assert all(torch.equal(d, wanted) for d in data)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 8])
def test_ring_sends_small_messages_where_the_star_sends_whole_tensors(k):
    with Messages() as ring:
        allreduce_ring(draw(k, 24 * k))
    assert ring.sizes == [24] * (2 * k * (k - 1))
    with Messages() as star:
        allreduce(draw(k, 24 * k))
    assert star.sizes == [24 * k] * (2 * (k - 1))


def test_ring_refuses_what_it_would_compute_wrongly():
    x = torch.ones(4)
    with pytest.raises(ValueError, match="share memory"):
        allreduce_ring([x, x])
    with pytest.raises(ValueError, match="contiguous"):
        allreduce_ring([torch.ones(2, 3).T, torch.ones(3, 2)])


def gradients(k, shapes=((5, 3), (5,), (40,), (2,))):
    generator = torch.Generator().manual_seed(k)
    return [[torch.randint(9, s, generator=generator).float() for s in shapes] for _ in range(k)]


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("bucket_bytes", [1, 80, 100, 10**6])
@pytest.mark.parametrize("how", [allreduce, allreduce_ring])
def test_buckets_change_nothing_but_the_messages(k, bucket_bytes, how):
    grads = gradients(k)
    wanted = [sum(g) for g in zip(*grads, strict=True)]
    before = [[g.data_ptr() for g in mine] for mine in grads]
    allreduce_bucketed(grads, bucket_bytes, how)
    for mine in grads:
        assert all(torch.equal(g, w) for g, w in zip(mine, wanted, strict=True))
    assert before == [[g.data_ptr() for g in mine] for mine in grads]


@pytest.mark.parametrize(
    ("bucket_bytes", "sizes"),
    [(1, [15, 5, 40, 2]), (80, [20, 40, 2]), (168, [20, 42]), (10**6, [62])],
)
def test_buckets_are_as_large_as_allowed(bucket_bytes, sizes):
    calls = []
    allreduce_bucketed(gradients(2), bucket_bytes, lambda flat: calls.append(flat[0].numel()))
    assert calls == sizes


def test_buckets_take_tensors_that_are_not_contiguous():
    grads = [[torch.arange(6.0).view(2, 3).T] for _ in range(2)]
    allreduce_bucketed(grads)
    assert torch.equal(grads[1][0], 2 * torch.arange(6.0).view(2, 3).T)


def test_buckets_refuse_bad_arguments():
    with pytest.raises(ValueError, match="bucket_bytes is 0"):
        allreduce_bucketed(gradients(2), 0)
    with pytest.raises(ValueError, match="different numbers"):
        allreduce_bucketed([[torch.ones(1)], []])


def ring_of_the_chapter():
    """Return the names that the chapter's cells about the ring define."""
    cells = nbformat.read(CHAPTERS / "multiple-gpus.ipynb", as_version=4).cells
    starts = ("def reduce_scatter(", "def allreduce_ring(")
    (halves,), (ring,) = ([c for c in cells if c.source.startswith(start)] for start in starts)
    names = {"checks": scratch}
    exec(halves.source + "\n" + ring.source, names)
    return names


def copied_by(ring, k):
    """Return which copies a ring makes, in order, and what the devices hold afterwards."""
    gpus(k, gpu="v100")
    data = [x.to(f"sim:{i}") for i, x in enumerate(draw(k, 11))]
    sim.reset()
    ring(data)
    copied = [span.name for span in sim.trace() if span.name.startswith("copy")]
    return copied, [d.tolist() for d in data]


@pytest.mark.parametrize("k", [3, 4, 5])  # with two devices any order is even first
def test_ring_is_the_one_of_the_chapter(k):
    chapter = ring_of_the_chapter()

    def in_order(data):
        chunks = [d.view(-1).tensor_split(k) for d in data]
        chapter["reduce_scatter"](chunks, range(k))
        chapter["all_gather"](chunks, range(k))

    assert copied_by(allreduce_ring, k) == copied_by(chapter["allreduce_ring"], k)
    assert copied_by(allreduce_ring, k) != copied_by(in_order, k)


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_each_device_holds_one_sum_after_the_chapters_reduce_scatter(k):
    data = draw(k, 4 * k)
    wanted = torch.stack(data).sum(0).tensor_split(k)
    chunks = [d.tensor_split(k) for d in data]
    ring_of_the_chapter()["reduce_scatter"](chunks, range(k))
    for device in range(k):
        complete = [j for j in range(k) if torch.equal(chunks[device][j], wanted[j])]
        assert complete == [(device + 1) % k]


@pytest.mark.parametrize("k", [2, 3])
def test_the_allreduces_do_not_race(k):
    devices = sim.configure(k)
    with sim.check_races():
        data = [torch.full((10,), i + 1.0, device=device) for i, device in enumerate(devices)]
        allreduce_ring(data)
        allreduce_bucketed([[d[:4], d[4:]] for d in data], bucket_bytes=16)
        assert all((d.cpu() == k * k * (k + 1) / 2).all() for d in data)
