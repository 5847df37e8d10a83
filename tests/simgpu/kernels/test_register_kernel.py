"""What a program states of its own kernels is what they cost."""

import pytest
import torch
from support.programs.clock_programs import elapsed, spans

import simgpu as sim
from simgpu.hardware import find_gpu
from simgpu.kernels import facts, table

H100 = find_gpu("h100")
CALLS = []


@torch.library.custom_op("simgpu_tests::fused", mutates_args=())
def fused(x: torch.Tensor, weight: torch.Tensor, times: int = 1) -> torch.Tensor:
    CALLS.append(times)
    return times * (x @ weight)


@fused.register_fake
def _(x, weight, times=1):
    return x.new_empty(x.shape[0], weight.shape[1])


@torch.library.custom_op("simgpu_tests::only_on_gpus", mutates_args=(), device_types="cuda")
def only_on_gpus(x: torch.Tensor) -> torch.Tensor:
    raise AssertionError("no GPU is there")


@only_on_gpus.register_fake
def _(x):
    return torch.empty_like(x)


@pytest.fixture
def register():
    """Register a kernel for one test."""
    names = set()

    def call(name, **stated):
        names.add(name)
        sim.register_kernel(name, **stated)

    yield call
    for name in names:
        table.REGISTERED.pop(name)
        for op in list(facts._ops.values()):
            if op.schema_name == name:
                op.set_kernel(table.kernel_of(op.func))


def operands(numerics, dtype=torch.bfloat16):
    (device,) = sim.configure(1, gpu="h100", numerics=numerics)
    return (torch.ones(256, 256, device=device, dtype=dtype) for _ in range(2))


@pytest.mark.parametrize("numerics", [True, False])
def test_an_unknown_operation_moves_each_tensor_once(numerics):
    x, weight = operands(numerics)
    elapsed(lambda: fused(x, weight))
    (span,) = spans(engine="compute")
    assert (span.name, span.flops, span.bytes) == ("fused", 0, 3 * x.nbytes)
    assert span.duration == H100.seconds(0, 3 * x.nbytes)


@pytest.mark.parametrize("numerics", [True, False])
def test_what_is_stated_is_charged_also_after_a_call_without_it(register, numerics):
    x, weight = operands(numerics)
    elapsed(lambda: fused(x, weight))
    register("simgpu_tests::fused", flops=lambda x, weight, times=1: times * 10**12)
    for times in (1, 3):
        elapsed(lambda times=times: fused(x, weight, times))
        (span,) = spans(engine="compute")
        assert (span.flops, span.bytes) == (times * 10**12, 3 * x.nbytes)
        assert span.duration == H100.seconds(times * 10**12, 3 * x.nbytes, "bfloat16")
    register("simgpu_tests::fused", bytes=lambda x, weight, times=1: 10**9)
    elapsed(lambda: fused(x, weight))
    (span,) = spans(engine="compute")
    assert (span.flops, span.bytes) == (0, 10**9)


def test_the_peak_is_that_of_the_numbers_or_what_is_stated(register):
    x, weight = operands(False, torch.float32)
    register("simgpu_tests::fused", flops=lambda *_: 10**12)
    plain = elapsed(lambda: fused(x, weight))
    register("simgpu_tests::fused", flops=lambda *_: 10**12, peak="float8")
    eight = elapsed(lambda: fused(x, weight))
    rates = H100.flops["float8"] / H100.flops["float32"]
    assert plain / eight == pytest.approx(rates, rel=0.02)


def test_a_peak_that_the_gpu_lacks_is_an_error(register):
    register("simgpu_tests::fused", flops=lambda *_: 10**12, peak="float8")
    (device,) = sim.configure(1, gpu="a100", numerics=False)
    x = torch.ones(8, 8, device=device)
    with pytest.raises(NotImplementedError, match="needs units for float8, which a100 lacks"):
        fused(x, x)


def test_values_are_those_of_the_operation(register):
    register("simgpu_tests::fused", flops=lambda *_: 10**12)
    x, weight = operands(True)
    assert fused(x, weight, 2).eq(512).all()


def test_an_operation_without_values_runs_on_shapes_and_is_refused_otherwise():
    (device,) = sim.configure(1, numerics=False)
    assert only_on_gpus(torch.ones(2, device=device)).shape == (2,)
    (device,) = sim.configure(1)
    with pytest.raises(NotImplementedError, match="only_on_gpus has no implementation for the CPU"):
        only_on_gpus(torch.ones(2, device=device))


@pytest.mark.parametrize(
    ("name", "stated", "why"),
    [
        ("fused", {"flops": len}, "name is 'fused'; give that of an operation"),
        ("a::b.default", {"flops": len}, "name is 'a::b.default'"),
        (torch.ops.aten.mm, {"flops": len}, "give that of an operation of torch.library"),
        ("aten::mm", {"flops": len}, "aten::mm is PyTorch's own"),
        ("a::b", {}, "nothing is stated for a::b; give bytes= or flops="),
        ("a::b", {"flops": 3}, "flops is 3; give a function"),
        ("a::b", {"flops": len, "peak": "fp8"}, "peak is 'fp8'; give one of float64, float32"),
        ("a::b", {"bytes": len, "peak": "float8"}, "together with flops="),
    ],
)
def test_wrong_statements_are_refused(name, stated, why):
    before = dict(table.REGISTERED)
    with pytest.raises(ValueError, match=why):
        sim.register_kernel(name, **stated)
    assert before == table.REGISTERED


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), None])
def test_a_wrong_number_is_an_error_that_names_the_operation(register, value):
    register("simgpu_tests::fused", flops=lambda *_: value)
    x, weight = operands(False)
    with pytest.raises(ValueError, match="flops= that is registered for simgpu_tests::fused"):
        fused(x, weight)
