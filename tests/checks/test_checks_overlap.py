"""The checkers of the chapter on overlap accept right solutions and name what is wrong."""

import itertools

import pytest
import torch
import torch.distributed as dist
from support.samples.solutions import make_tests, returns_nothing
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.flop_counter import FlopCounterMode

from d2lmini import sim
from d2lmini.checks import overlap as checks
from d2lmini.checks.overlap.buckets import buckets_of

RIGHT, WRONG = {}, {}


def smallest_share(step_seconds, shares, k, wanted):
    for n in sorted(shares):
        if k * n / step_seconds(k, n) >= wanted * n / step_seconds(1, n):
            return n
    return None


def largest(step_seconds, shares, k, wanted):
    return next(
        (n for n in sorted(shares)[::-1] if k * step_seconds(1, n) / step_seconds(k, n) >= wanted),
        None,
    )


RIGHT["smallest_share"] = smallest_share
WRONG["smallest_share"] = {
    "compare images per second": lambda step, shares, k, wanted: min(
        (n for n in shares if step(1, n) / step(k, n) >= wanted), default=None
    ),
    "a smaller share is, too": largest,
    "the same share, not with one that has all": lambda step, shares, k, wanted: min(
        (n for n in shares if step(1, k * n) / step(k, n) >= wanted), default=None
    ),
    "do k n images in a step": lambda step, shares, k, wanted: 1,
    "must be a number": lambda step, shares, k, wanted: shares,
}


def make_buckets(sizes, first_cap, cap):
    buckets, limits = [0], itertools.chain([first_cap], itertools.repeat(cap))
    limit = next(limits)
    for size in sizes[::-1]:
        if buckets[-1] >= limit:
            buckets.append(0)
            limit = next(limits)
        buckets[-1] += size
    return buckets


def closed_before(sizes, first_cap, cap):
    """Pack as much as fits below the limit."""
    buckets = [0]
    for size in sizes[::-1]:
        limit = first_cap if len(buckets) == 1 else cap
        if buckets[-1] and buckets[-1] + size > limit:
            buckets.append(0)
        buckets[-1] += size
    return buckets


RIGHT["make_buckets"] = make_buckets
WRONG["make_buckets"] = {
    "go through the gradients backwards": lambda s, first, cap: make_buckets(s[::-1], first, cap),
    "The first bucket has a limit of its own": lambda s, first, cap: make_buckets(s, cap, cap),
    "holds for the first bucket only": lambda s, first, cap: make_buckets(s, first, first),
    "are never sent; what remains": lambda s, first, cap: buckets_of(s, first, cap)[:-1],
    "that one is in it": closed_before,
    "An empty bucket is not sent": lambda s, first, cap: [*buckets_of(s, first, cap), 0],
    "make_buckets returned None": returns_nothing,
    "changed `sizes`": lambda s, first, cap: [s.pop() for _ in list(s)],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "caps"), [({}, (2**20, 25 * 2**20)), ({"bucket_cap_mb": 1}, (2**20, 2**20))]
)
def test_the_buckets_are_those_of_ddp(options, caps):
    widths = (300, 500, 400, 900, 700, 1, 600)

    def net():
        layers = [nn.Linear(a, b, bias=False) for a, b in itertools.pairwise(widths)]
        return nn.Sequential(*layers)

    def train(rank):
        torch.distributed.init_process_group()
        model = DistributedDataParallel(net().to(f"sim:{rank}"), **options)
        for _ in range(3):
            model(torch.zeros(2, widths[0], device=f"sim:{rank}")).sum().backward()

    sim.spawn(train, nprocs=2, numerics=False)
    sent = [s.bytes for s in sim.trace() if s.device == "rank 0 sim:0" and s.name == "all_reduce"]
    sizes = [4 * a * b for a, b in itertools.pairwise(widths)]
    expected = buckets_of(sizes, *caps)
    assert len(expected) > 1
    assert sent[-len(expected) :] == expected


def message_seconds(buckets, k, latency, bandwidth):
    return [latency + 2 * (k - 1) / k * size / bandwidth for _, size in buckets]


def exposed_seconds(buckets, k, backward_end, latency, bandwidth):
    now = 0.0
    seconds = message_seconds(buckets, k, latency, bandwidth)
    for (full, _), each in zip(buckets, seconds, strict=True):
        now = max(now, full) + each
    return max(now - backward_end, 0.0)


def at_once(buckets, k, end, latency, bandwidth):
    seconds = message_seconds(buckets, k, latency, bandwidth)
    return max(0.0, max(b[0] + s for b, s in zip(buckets, seconds, strict=True)) - end)


def with_bytes_times(factor):
    return lambda buckets, k, *rest: exposed_seconds(
        [(full, factor(k) * size) for full, size in buckets], k, *rest
    )


RIGHT["exposed_seconds"] = exposed_seconds
WRONG["exposed_seconds"] = {
    "what travels beside the backward pass": lambda b, k, end, *link: sum(
        message_seconds(b, k, *link)
    ),
    "wait until the one before": at_once,
    "the last bucket alone": lambda b, k, end, *link: message_seconds(b, k, *link)[-1],
    "not the bytes themselves": with_bytes_times(lambda k: k / (2 * (k - 1))),
    "not 2$": with_bytes_times(lambda k: k / (k - 1)),
    "go round twice": with_bytes_times(lambda k: 1 / 2),
    "counts twice": with_bytes_times(lambda k: 2),
    "Every bucket pays the latency": lambda b, k, end, latency, bandwidth: exposed_seconds(
        b, k, end, 0.0, bandwidth
    ),
    "cannot travel before it is full": lambda b, k, end, *link: max(
        0.0, sum(message_seconds(b, k, *link)) - end
    ),
    "0, not less": lambda b, k, end, latency, bandwidth: (
        exposed_seconds(b, k, 0.0, latency, bandwidth) - end
    ),
    "count from the end of the backward pass": lambda b, k, end, *link: exposed_seconds(
        b, k, 0.0, *link
    ),
    "must be a number": returns_nothing,
}


def flops(net, X):
    with FlopCounterMode(display=False) as counter:
        net(X).sum().backward()
    return counter.get_total_flops()


def mfu(net, X, k, seconds, peaks, dtype):
    return flops(net, X) / (k * seconds * peaks[dtype])


def forward_alone(net, X, k, seconds, peaks, dtype):
    with FlopCounterMode(display=False) as counter:
        net(X)
    return counter.get_total_flops() / (k * seconds * peaks[dtype])


RIGHT["mfu"] = mfu, lambda *arguments: 3 * forward_alone(*arguments)
WRONG["mfu"] = {
    "the forward pass alone": forward_alone,
    "the backward pass alone": lambda *arguments: 2 * forward_alone(*arguments),
    "the peak for float32; this step multiplies in tf32": lambda net, X, k, seconds, peaks, dtype: (
        flops(net, X) / (k * seconds * peaks[str(X.dtype).removeprefix("torch.")])
    ),
    "the peak for bfloat16": lambda net, X, k, seconds, peaks, dtype: (
        flops(net, X) / (k * seconds * max(peaks.values()))
    ),
    "peaks count both": lambda *arguments: mfu(*arguments) / 2,
    "4 times the peak of one": lambda net, X, k, seconds, peaks, dtype: mfu(
        net, X, 1, seconds, peaks, dtype
    ),
    "divide by 4 once": lambda net, X, k, *rest: mfu(net, X, k * k, *rest),
    "in per cent": lambda *arguments: 100 * mfu(*arguments),
    "FLOPs of one example": lambda net, X, *rest: mfu(net, X[:1], *rest),
    "the peak of all GPUs together": lambda *arguments: 0.123,
    "must be a number": returns_nothing,
}


def run_well(step, num_steps, max_in_flight):
    events = []
    for _ in range(num_steps):
        if len(events) == max_in_flight:
            events.pop(0).synchronize()
        events.append(step())
    for event in events:
        event.synchronize()


def run_without_wait(step, num_steps, max_in_flight):
    for _ in range(num_steps):
        event = step()
    event.synchronize()


def run_with_wait_for_the_newest(step, num_steps, max_in_flight):
    for i in range(num_steps):
        event = step()
        if (i + 1) % max_in_flight == 0:
            event.synchronize()
    event.synchronize()


def run_one_at_a_time(step, num_steps, max_in_flight):
    for _ in range(num_steps):
        step().synchronize()


def run_without_the_end(step, num_steps, max_in_flight):
    events = []
    for _ in range(num_steps):
        if len(events) == max_in_flight:
            events.pop(0).synchronize()
        events.append(step())


def run_one_too_few(step, num_steps, max_in_flight):
    run_well(step, num_steps - 1, max_in_flight)


RIGHT["run_steps"] = run_well
WRONG["run_steps"] = {
    "Without a wait the host launches everything": run_without_wait,
    "not for the newest, and not for all": run_with_wait_for_the_newest,
    "the device idles": run_one_at_a_time,
    "returns before the last steps are done": run_without_the_end,
    "9 steps were launched": run_one_too_few,
    "0 steps were launched": lambda step, num_steps, max_in_flight: step,
    "run_steps raised AttributeError.*is a `return` missing": lambda step, n, m: (
        step() and None
    ).synchronize(),
}


def advance(number, optimizer, scheduler, parts, times=1):
    if (number + 1) % parts == 0:
        optimizer.step()
        optimizer.zero_grad()
        for _ in range(times):
            scheduler.step()


def advance_for_each_rank(*arguments):
    advance(*arguments, times=dist.get_world_size())


def advance_for_each_part(number, optimizer, scheduler, parts):
    advance(number, optimizer, scheduler, parts, times=0)
    scheduler.step()


def advance_for_each_part_and_rank(number, optimizer, scheduler, parts):
    advance(number, optimizer, scheduler, parts, times=0)
    for _ in range(dist.get_world_size()):
        scheduler.step()


def advance_first(number, optimizer, scheduler, parts):
    if (number + 1) % parts == 0:
        scheduler.step()
        optimizer.step()
        optimizer.zero_grad()


def advance_with_old_gradients(number, optimizer, scheduler, parts):
    if (number + 1) % parts == 0:
        optimizer.step()
        scheduler.step()


def advance_without_parts(number, optimizer, scheduler, parts):
    advance(0, optimizer, scheduler, 1)


RIGHT["advance"] = advance
WRONG["advance"] = {
    r"^2 rank.* That is accelerate#2926: the schedule advances 2 times": advance_for_each_rank,
    "It advances after every part": (advance_for_each_part, advance_for_each_part_and_rank),
    "The schedule never advances": lambda *a: advance(*a, times=0),
    "It advances before the update": advance_first,
    "Advance it once after each update": lambda *a: advance(*a, times=2),
    "add up .* parts; clear them": advance_with_old_gradients,
    "18 updates are made of 18 parts, not 6": advance_without_parts,
    "0 updates are made": returns_nothing,
}


test_right_solutions_pass, test_wrong_solutions_are_named = make_tests(checks, RIGHT, WRONG)
