"""Programs that overlap collectives with kernels, and the same with a wait less or elsewhere.

What comes before what is written down here a second time, as a graph that is searched. A program
is a list of steps: those that work (``use``, ``call``), and those that only order others.
"""

from collections import Counter
from random import Random

import pytest
import torch
import torch.distributed as dist

import simgpu as sim

SIZE, NUM_STREAMS, NUM_GROUPS, NUM_EVENTS = 8, 3, 2, 3


class Graph:
    """The order of a program's work, and what is in flight: nobody has waited for it."""

    def __init__(self):
        self.before = []  # by node: the nodes that come directly before it
        self.last, self.events, self.works, self.host = {}, {}, {}, set()
        self.accesses = []  # (node, what made it, tensor, start, end, writes)
        self.flying = []  # (slot, group, accesses)

    def add(self, queue, *before):
        """Put a node at the end of a queue: a stream, or that of a group."""
        found = {self.last.get(queue), *before, *self.host} - {None}
        self.before.append(found)
        self.last[queue] = len(self.before) - 1
        return self.last[queue]

    def comes_before(self, first, second):
        seen, todo = set(), [second]
        while todo:
            node = todo.pop()
            if node == first:
                return True
            todo += self.before[node] - seen
            seen |= self.before[node]
        return False

    def step(self, kind, *args):
        """Do a step; return what is wrong with it: a word, and what made the earlier access."""
        return getattr(self, kind)(*args)

    def use(self, stream, region, writes):
        return self.in_flight([(*region, writes)]) or self.work(
            self.add(stream), [(*region, writes)], ("stream", stream)
        )

    def call(self, stream, group, slot, reads, writes):
        """Call a collective, in the current stream if there is no slot for its work."""
        accesses = [(*reads, False), (*writes, True)]
        if slot is None:
            return self.in_flight(accesses) or self.work(
                self.add(stream), accesses, ("stream", stream)
            )
        wrong = self.in_flight(accesses, group)
        if not wrong:
            node = self.works[slot] = self.add(("group", group), self.last.get(stream))
            wrong = self.work(node, accesses, ("slot", slot))
            self.flying.append((slot, group, accesses))
        return wrong

    def in_flight(self, accesses, own_group=None):
        for slot, group, others in self.flying:
            if group != own_group and any(conflict(a, b) for a in accesses for b in others):
                return "in flight", ("slot", slot)
        return None

    def work(self, node, accesses, maker):
        wrong = None
        for old, old_maker, *other in self.accesses:
            if any(conflict(a, other) for a in accesses) and not self.comes_before(old, node):
                wrong = "race", old_maker
        self.accesses += [(node, maker, *access) for access in accesses]
        return wrong

    def wait(self, stream, slot):
        self.add(stream, self.works[slot])
        found = [i for i, (other, *_) in enumerate(self.flying) if other == slot]
        if found:
            group = self.flying[found[0]][1]
            self.flying = [f for i, f in enumerate(self.flying) if f[1] != group or i > found[0]]

    def record(self, stream, event):
        self.events[event] = self.add(stream)

    def wait_event(self, stream, event):
        self.add(stream, self.events.get(event))

    def wait_stream(self, stream, other):
        self.add(stream, self.last.get(other))

    def synchronize(self, stream):
        self.host |= {self.last.get(stream)} - {None}

    def copy(self):
        other = Graph()
        other.before, other.host = [*self.before], {*self.host}
        other.last, other.events, other.works = {**self.last}, {**self.events}, {**self.works}
        other.accesses, other.flying = [*self.accesses], [*self.flying]
        return other


def conflict(one, other):
    (first, start, end, writes), (second, begin, stop, wrote) = one, other
    return first == second and (writes or wrote) and start < stop and begin < end


def verdict(program):
    """Return what the graph says of a program: None, "in flight" or "race"."""
    graph = Graph()
    for step in program:
        wrong = graph.step(*step)
        if wrong:
            return wrong[0]
    return None


def found(program, nprocs=1):
    """Return what the simulator says of a program."""

    def on_rank(rank):
        dist.init_process_group()
        Run().do(program)

    try:
        with sim.check_races():
            sim.spawn(on_rank, nprocs=nprocs, gpu="a100", link="nvlink3", numerics=False)
    except sim.RaceError:
        return "race"
    except sim.RanksError as error:
        return "in flight" if "before its wait()" in str(error) else str(error)
    return None


class Run:
    """Does the steps of a program on one rank."""

    def __init__(self):
        self.tensors = [torch.ones(SIZE, device="sim") for _ in range(4)]
        members = list(range(dist.get_world_size()))
        self.groups = [dist.new_group(members) for _ in range(NUM_GROUPS)]
        self.streams = [torch.accelerator.current_stream()]
        self.streams += [torch.Stream() for _ in range(NUM_STREAMS - 1)]
        self.events, self.works = [torch.Event() for _ in range(NUM_EVENTS)], {}
        torch.accelerator.synchronize()

    def do(self, program):
        for kind, stream, *args in program:
            with self.streams[stream]:
                getattr(self, kind)(self.streams[stream], *args)

    def part(self, tensor, start, end):
        return self.tensors[tensor][start:end]

    def use(self, stream, region, writes):
        part = self.part(*region)
        part.mul_(2) if writes else part.sum()

    def call(self, stream, group, slot, reads, writes):
        given, filled, group = self.part(*reads), self.part(*writes), self.groups[group]
        if reads == writes:
            work = dist.all_reduce(filled, group=group, async_op=slot is not None)
        else:
            outputs = [torch.empty_like(given) for _ in range(group.size() - 1)]
            work = dist.all_gather(
                [filled, *outputs], given, group=group, async_op=slot is not None
            )
        if slot is not None:
            self.works[slot] = work

    def wait(self, stream, slot):
        self.works[slot].wait()

    def record(self, stream, event):
        self.events[event].record(stream)

    def wait_event(self, stream, event):
        stream.wait_event(self.events[event])

    def wait_stream(self, stream, other):
        stream.wait_stream(self.streams[other])

    def synchronize(self, stream):
        stream.synchronize()


ORDERS = "wait", "record", "wait_event", "wait_stream", "synchronize"


def mutants(program, num_streams=NUM_STREAMS):
    """Return the programs in which one step that orders others is left out, or elsewhere."""
    for i, (kind, stream, *args) in enumerate(program):
        if kind in ORDERS:
            yield f"no {kind}", program[:i] + program[i + 1 :]
            for other in range(num_streams):
                if other != stream and [other] != args:
                    yield f"{kind} elsewhere", [
                        *program[:i], (kind, other, *args), *program[i + 1 :]
                    ]  # fmt: skip


# ---- programs as people write them

X, Y, Z, W = ((tensor, 0, SIZE) for tensor in range(4))
FIRST, SECOND = (0, 0, SIZE // 2), (0, SIZE // 2, SIZE)

WRITTEN = {
    "buckets of gradients": [
        ("use", 0, FIRST, True), ("call", 0, 0, "a", FIRST, FIRST),
        ("use", 0, SECOND, True), ("call", 0, 0, "b", SECOND, SECOND),
        ("wait", 0, "a"), ("wait", 0, "b"), ("use", 0, X, False),
    ],
    "a communication stream": [
        ("use", 0, X, True), ("record", 0, 0), ("wait_event", 1, 0),
        ("call", 1, 0, None, X, X), ("record", 1, 1), ("use", 0, Y, True),
        ("wait_event", 0, 1), ("use", 0, X, True),
    ],
    "two buffers in turn": [
        ("call", 0, 0, "a", W, X), ("wait", 0, "a"), ("call", 0, 0, "b", W, Y),
        ("use", 0, X, False), ("wait", 0, "b"), ("call", 0, 0, "c", W, X),
        ("use", 0, Y, False), ("wait", 0, "c"), ("call", 0, 0, "d", W, Y),
        ("use", 0, X, False), ("wait", 0, "d"), ("use", 0, Y, False),
    ],
    "gather ahead, scatter behind": [
        ("use", 0, X, True), ("wait_stream", 1, 0), ("call", 1, 0, "a", X, Y), ("use", 0, Z, True),
        ("wait", 0, "a"), ("use", 0, Y, False), ("wait_stream", 2, 0),
        ("call", 2, 1, "b", Z, Z), ("wait", 2, "b"), ("use", 2, Z, True),
        ("record", 2, 0), ("use", 0, Y, True), ("wait_event", 0, 0), ("use", 0, Z, True),
    ],
    "the host waits": [
        ("use", 1, X, True), ("synchronize", 1), ("call", 0, 0, "a", X, X),
        ("wait", 2, "a"), ("synchronize", 2), ("use", 0, X, True),
    ],
}  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", WRITTEN)
def test_each_wait_of_a_program_is_needed(name):
    program = WRITTEN[name]
    assert verdict(program) is found(program, 2) is None
    for how, mutant in mutants(program):
        expected = verdict(mutant)
        if how.startswith("no ") and how != "no wait":
            assert expected == "race", how
        assert found(mutant) == expected, how


def test_a_wait_that_a_later_one_makes_superfluous():
    program = WRITTEN["buckets of gradients"]
    assert verdict(program[:4] + program[5:]) is None
    assert verdict(program[:5] + program[6:]) == "in flight"


# ---- random ones


def random_program(random, length):
    """Return a program without races: random work, and before it the waits that it needs."""
    graph, program, slots = Graph(), [], []
    while len(program) < length:
        step = random_work(random, len(slots))
        if step[0] == "call" and step[3] is not None:
            slots.append(step[3])
        while (wrong := graph.copy().step(*step)) is not None:
            for order in waits_for(random, step[1], *wrong[1]):
                graph.step(*order)
                program.append(order)
        graph.step(*step)
        program.append(step)
    return program


def random_work(random, slot):
    stream = random.randrange(NUM_STREAMS)
    tensor, (start, end) = random.randrange(4), random.choice([(0, 8), (0, 4), (4, 8)])
    region = tensor, start, end
    if random.random() < 0.5:
        return "use", stream, region, random.random() < 0.5
    slot = None if random.random() < 0.2 else slot
    other = random.randrange(4)
    target = region if other == tensor else (other, start, end)
    return "call", stream, random.randrange(NUM_GROUPS), slot, region, target


def waits_for(random, stream, kind, number):
    """Return steps after which `stream` comes after the work in a slot or a stream."""
    other = random.randrange(NUM_STREAMS)
    if kind == "slot" and other != stream and random.random() < 0.5:
        return [("wait", other, number), *waits_for(random, stream, "stream", other)]
    if kind == "slot":
        return [("wait", stream, number)]
    event = random.randrange(NUM_EVENTS)
    return random.choice([
        [("wait_stream", stream, number)],
        [("record", number, event), ("wait_event", stream, event)],
        [("synchronize", number)],
    ])  # fmt: skip


def check_random(seeds, length):
    """Compare random programs and their mutants; return how often each verdict was given."""
    seen = Counter()
    for seed in seeds:
        random = Random(seed)
        program = random_program(random, length)
        assert verdict(program) is None
        assert found(program) is None, (seed, program)
        changed = [*mutants(program)]
        for how, mutant in random.sample(changed, min(4, len(changed))):
            expected = verdict(mutant)
            assert found(mutant) == expected, (seed, how, mutant)
            seen[expected] += 1
    return seen


@pytest.mark.slow
def test_random_programs():
    seen = check_random(range(8), 14)
    assert set(seen) == {None, "race", "in flight"}


@pytest.mark.exhaustive
def test_more_random_programs():
    seen = check_random(range(1000, 1400), 25)
    assert min(seen.values()) > 100
