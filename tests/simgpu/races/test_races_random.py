"""The race detector on random programs, compared with the whole graph of what comes before what."""

import warnings
from collections import Counter
from random import Random

import pytest
import torch

import simgpu as sim

hypothesis = pytest.importorskip("hypothesis")
given, settings, st = hypothesis.given, hypothesis.settings, hypothesis.strategies

pick = st.integers(0, 11)
KINDS = (
    ["use"] * 4 + ["make"] * 2 + ["cover", "peer", "record", "wait_event", "wait_stream", "host"]
)


class Graph:
    """All that was issued, as numbered nodes: each with the set of those that come before it."""

    def __init__(self):
        self.before = []
        self.last = {}  # the last node in a stream; that of the host comes before all new ones

    def add(self, streams, *after):
        """Put a node into streams, behind the given nodes; None stands for none."""
        after = {*after, *(self.last.get(s) for s in (*streams, "host"))} - {None}
        self.before.append(after.union(*(self.before[node] for node in after)))
        self.last.update(dict.fromkeys(streams, len(self.before) - 1))
        return len(self.before) - 1


class Tensor:
    """A tensor on the simulated GPU, and all that was ever done to it."""

    def __init__(self, maker, earlier):
        self.maker = maker
        self.earlier = earlier  # tensors whose memory it may have got
        self.uses = []  # (node, first, last, writes)
        self.covered = set()  # by record_stream
        self.over = set()  # when it was dropped: nodes that end before its memory is used again

    def use(self, graph, node, first, last, writes):
        """Note a use; return whether an earlier one should come before it, and need not."""
        before = graph.before[node] | {node}
        races = any(
            old not in before and (writes or wrote) and first <= end and start <= last
            for old, start, end, wrote in self.uses
        ) or any(old not in before | past.over for past in self.earlier for old, *_ in past.uses)
        self.uses.append((node, first, last, writes))
        return races


class Program:
    """Does random steps. Each returns whether it makes a race, and the function that does it."""

    def __init__(self, num_streams):
        self.devices = sim.configure(2, numerics=False)
        self.streams = [sim.Stream(self.devices[0]) for _ in range(num_streams)]
        self.peer_stream = sim.Stream(self.devices[1])
        self.events = [sim.Event() for _ in range(2)]
        self.marks = [None] * 2  # the nodes that they mark
        self.graph, self.dropped, self.tensors = Graph(), [], [None] * 3
        for i in range(3):
            self.make(i % num_streams, i, 0)[1]()

    def step(self, kind, a, b, c):
        return getattr(self, kind)(a % len(self.streams), b, c)

    def use(self, s, i, c):
        tensor, writes = self.tensors[i % 3], c < 5
        first, last = ((0, 7), (0, 3), (4, 7))[c % 3]
        node = self.graph.add([s])

        def act():
            with self.streams[s]:
                part = tensor.value[first : last + 1]
                if writes:
                    part.mul_(2)
                else:
                    part.to("cpu", non_blocking=True)

        return tensor.use(self.graph, node, first, last, writes), act

    def peer(self, s, i, c):
        tensor, node = self.tensors[i % 3], self.graph.add([s, "peer"])

        def act():
            with self.streams[s], self.peer_stream:
                tensor.value.to(self.devices[1])

        return tensor.use(self.graph, node, 0, 7, False), act

    def make(self, s, i, c):
        past, graph = self.tensors[i % 3], self.graph
        if past is not None:
            ends = {graph.last.get(stream) for stream in past.covered} - {None}
            past.over = ends.union(*(graph.before[end] for end in ends))
            past.value = None  # dropped
            self.dropped.append(past)
        tensor = Tensor(s, [past for past in self.dropped if past.maker == s])
        self.tensors[i % 3] = tensor

        make = torch.empty if c % 2 else torch.ones

        def act():
            with self.streams[s]:
                tensor.value = make(8, device=self.devices[0])

        if make is torch.empty:
            return False, act
        return tensor.use(graph, graph.add([s]), 0, 7, True), act

    def cover(self, s, i, c):
        tensor = self.tensors[i % 3]
        if s != tensor.maker:
            tensor.covered.add(s)
        return False, lambda: tensor.value.record_stream(self.streams[s])

    def record(self, s, e, c):
        self.marks[e % 2] = self.graph.add([s])
        return False, lambda: self.events[e % 2].record(self.streams[s])

    def wait_event(self, s, e, c):
        self.graph.add([s], self.marks[e % 2])
        return False, lambda: self.streams[s].wait_event(self.events[e % 2])

    def wait_stream(self, s, t, c):
        self.graph.add([s], self.graph.last.get(t % len(self.streams)))
        return False, lambda: self.streams[s].wait_stream(self.streams[t % len(self.streams)])

    def host(self, s, e, c):
        if c % 2:
            self.graph.add(["host"], self.marks[e % 2])
            return False, self.events[e % 2].synchronize
        self.graph.add(["host"], self.graph.last.get(s))
        return False, self.streams[s].synchronize


@pytest.mark.slow
def test_races_are_found_exactly_where_the_graph_has_them():
    """Most steps wait for all streams first, so that programs get long before the first race."""
    found = Counter()
    for seed in range(400):
        random = Random(seed)
        with sim.check_races():
            program = Program(random.choice((2, 3)))
            num_streams = len(program.streams)
            for _ in range(40):
                kind, a, b, c = random.choice(KINDS), *(random.randrange(12) for _ in range(3))
                orders = random.random() < (0.5 if kind == "make" else 0.85)
                for other in range(num_streams if orders else 0):
                    program.step("wait_stream", a, other, 0)[1]()
                expected, act = program.step(kind, a, b, c)
                race = None
                try:
                    act()
                except sim.RaceError as error:
                    race = str(error)
                assert expected == (race is not None), (seed, kind, a, b, c, race)
                if race:
                    found["freed" if "freed" in race else "plain"] += 1
                    break
            else:
                found["none"] += 1
    assert len(found) == 3, found
    assert min(found.values()) >= 20, found


@pytest.mark.slow
@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    num_streams=st.integers(2, 3),
    uses=st.lists(st.tuples(pick, pick, pick), min_size=2, max_size=12),
    data=st.data(),
)
def test_one_missing_link_in_a_chain_is_found(num_streams, uses, data):
    """Each use waits for the one before it; then one of these waits is left out."""
    missing = data.draw(st.integers(1, len(uses) - 1))
    for left_out in (None, missing):
        with warnings.catch_warnings(record=True) as caught, sim.check_races("warn"):
            warnings.simplefilter("always")
            program = Program(num_streams)
            sim.synchronize()
            program.graph.add(["host"], *program.graph.last.values())
            expected = 0
            for number, (s, i, c) in enumerate(uses):
                if number not in (0, left_out):
                    before = uses[number - 1][0] % num_streams
                    program.step("wait_stream", s, before, 0)[1]()
                races, act = program.step("use", s, i, c)
                act()
                expected += races
        assert bool(caught) == bool(expected)
        if left_out is None:
            assert not expected
