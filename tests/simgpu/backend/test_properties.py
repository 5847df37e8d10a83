"""Random small programs over 1 to 4 devices give what the CPU gives, and keep time and memory."""

import itertools

import pytest
import torch

import simgpu as sim

hypothesis = pytest.importorskip("hypothesis")
HealthCheck, given, settings = hypothesis.HealthCheck, hypothesis.given, hypothesis.settings
st = hypothesis.strategies

ROWS, COLUMNS = 3, 4

UNARY = (
    torch.relu, torch.sigmoid, torch.sin, lambda x: x * 2, lambda x: 1 - x, torch.clone,
    lambda x: x.softmax(1), lambda x: x - x.mean(0), lambda x: x.clamp(-1, 1), torch.abs,
    lambda x: x.flip(1), lambda x: x.cumsum(0), lambda x: torch.where(x > 0, x, 0.5),
    lambda x: (x @ x.t()) @ x / 10, lambda x: x.sort(1).values, lambda x: x[[2, 0, 1]],
    lambda x: x.reshape(COLUMNS, ROWS).reshape(ROWS, COLUMNS), lambda x: x.double().float(),
)  # fmt: skip
BINARY = (
    torch.add, torch.mul, torch.sub, torch.maximum, lambda x, y: torch.cat([x, y])[::2],
    lambda x, y: (x @ y.t()) @ y / 10, lambda x, y: torch.stack([x, y]).sum(0),
    lambda x, y: x / (1 + y * y), lambda x, y: torch.lerp(x, y, 0.25),
)  # fmt: skip
IN_PLACE = (
    lambda x: x.mul_(0.5), lambda x: x.add_(1), lambda x: x.fill_(2), lambda x: x[0].neg_(),
    lambda x: x.t()[1].zero_(), lambda x: x.view(-1)[::5].add_(3),
    lambda x: x.__setitem__((slice(1, 3), 2), 7.0), lambda x: x.__setitem__(x > 1, -1.0),
    lambda x: x.__setitem__([0, 2], x[1] * 1), lambda x: x.clamp_(-2, 2),
)  # fmt: skip

pick = st.integers(0, 1000)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("unary"), pick, pick, pick),
        st.tuples(st.just("binary"), pick, pick, pick),
        st.tuples(st.just("in_place"), pick, pick, pick),
        st.tuples(st.just("move"), pick, pick, pick),
        st.tuples(st.just("assign"), pick, pick, pick),
        st.tuples(st.just("host"), pick, pick, pick),
        st.tuples(st.just("drop"), pick, pick, pick),
        st.tuples(st.just("wait"), pick, pick, pick),
    ),
    min_size=1,
    max_size=10,
)


class OnSimulatedGPUs:
    """Runs a program on simulated GPUs."""

    def __init__(self, num_devices):
        self.devices = sim.configure(num_devices)

    def place(self, x, _, target):
        return x.to("cpu" if target is None else self.devices[target])

    def wait(self, number):
        sim.synchronize(self.devices[number])


class OnCPU:
    """Runs the same program on the CPU; a copy stands where tensors would change devices.

    (The copies keep the graph the same, and so the order in which gradients are added up.)
    """

    def place(self, x, source, target):
        return x if source == target else x.clone()

    def wait(self, number):
        pass


def run(program, starts, num_devices, machine):
    """Run a program; returns what it made and where, its leaves, and their sum of squares."""
    leaves, values = [], []
    for i, start in enumerate(starts):
        start %= num_devices
        leaf = torch.arange(ROWS * COLUMNS * 1.0).reshape(ROWS, COLUMNS).sin() * (i + 1)
        leaves.append(machine.place(leaf, None, start).requires_grad_())
        values.append((leaves[-1] * 1, start))
    for kind, choice, i, j in program:
        x, here = values[i % len(values)]
        y, there = values[j % len(values)]
        target = choice % num_devices
        if kind == "unary":
            values.append((UNARY[choice % len(UNARY)](x), here))
        elif kind == "binary":
            y = machine.place(y, there, here)
            values.append((BINARY[choice % len(BINARY)](x, y), here))
        elif kind == "in_place":
            fresh = x.clone()  # what backward needs stays as it was
            IN_PLACE[choice % len(IN_PLACE)](fresh)
            values.append((fresh, here))
        elif kind == "move":
            values.append((machine.place(x, here, target), target))
        elif kind == "assign":
            fresh = x.clone()
            fresh[1:] = machine.place(y[:2], there, here) * (1 + choice % 2)
            values.append((fresh, here))
        elif kind == "host":
            values.append((machine.place(machine.place(x, here, None), None, target), target))
        elif kind == "drop" and len(values) > 1:
            del values[i % len(values)]
        elif kind == "wait":
            machine.wait(target)
    total = sum(machine.place((v * v).sum(), place, None) for v, place in values)
    total.backward()
    return values, leaves, total


@pytest.mark.slow
@settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(program=steps, num_devices=st.integers(1, 4), starts=st.lists(pick, min_size=1, max_size=3))
def test_programs_give_what_the_cpu_gives(program, num_devices, starts):
    expected, expected_leaves, expected_total = run(program, starts, num_devices, OnCPU())
    machine = OnSimulatedGPUs(num_devices)
    values, leaves, total = run(program, starts, num_devices, machine)

    assert torch.equal(total, expected_total)
    for (e, place), (v, same_place) in zip(expected, values, strict=True):
        assert place == same_place
        assert v.device == machine.devices[place]
        assert torch.equal(e, v.cpu())
    for e, v in zip(expected_leaves, leaves, strict=True):
        assert (e.grad is None) == (v.grad is None)
        if e.grad is not None:
            assert v.grad.device == v.device
            assert torch.equal(e.grad, v.grad.cpu())


@pytest.mark.slow
@settings(
    max_examples=20, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(program=steps, num_devices=st.integers(1, 4), starts=st.lists(pick, min_size=1, max_size=3))
def test_programs_keep_time_and_memory(program, num_devices, starts):
    machine = OnSimulatedGPUs(num_devices)
    devices = machine.devices
    values, leaves, total = run(program, starts, num_devices, machine)
    sim.synchronize()
    first = sim.now(), sim.trace()

    lanes = {}
    for span in first[1]:
        assert 0 <= span.start <= span.end <= first[0]
        lanes.setdefault((span.device, span.engine), []).append(span)
    for (device, _), lane in lanes.items():
        lane.sort(key=lambda span: span.start)
        assert all(a.end <= b.start + 1e-12 for a, b in itertools.pairwise(lane)), device

    del values, total
    kept = dict.fromkeys(devices, 0)
    for leaf in leaves:
        kept[leaf.device] += 512 if leaf.grad is None else 2 * 512
    assert {d: sim.memory_allocated(d) for d in devices} == kept
    del leaf, leaves
    assert not any(sim.memory_allocated(d) for d in devices)

    run(program, starts, num_devices, OnSimulatedGPUs(num_devices))
    sim.synchronize()
    assert (sim.now(), sim.trace()) == first
