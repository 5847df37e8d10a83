"""The matrix products inside operations: their FLOPs, and that the clock goes by their shapes."""

import dataclasses
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

import simgpu as sim
from simgpu.hardware import GPUS, find_gpu
from simgpu.hardware.matmul_efficiency import BEST, THIN
from simgpu.kernels import products
from simgpu.kernels.facts import lookup

A100 = find_gpu("a100")
aten = torch.ops.aten
KINDS = [
    dict(stride=1, padding=1, dilation=1), dict(stride=2, padding=0, dilation=1),
    dict(stride=1, padding=2, dilation=2),
]  # fmt: skip


def meta(*shape):
    return torch.empty(*shape, device="meta")


def ours(program):
    """FLOPs that the simulator counts in a program on meta tensors, by operation."""
    found = {}

    class Count(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            op = lookup(func)
            if op.kernel is not None and op.kernel.work is not None:
                name = op.packet_name
                found[name] = found.get(name, 0) + op.work(args, kwargs or {}, out)[0]
            return out

    with Count():
        program()
    return found


def theirs(program):
    """The same by PyTorch's counter."""
    with FlopCounterMode(display=False) as counter:
        program()
    return {str(op).rpartition(".")[2]: n for op, n in counter.get_flop_counts()["Global"].items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)])
def test_convolutions_have_the_flops_of_pytorchs_formulas(kind, dims, transposed, wanted):
    convolve = getattr(F, f"conv{'_transpose' if transposed else ''}{dims}d")
    data, weight = meta(2, 6, *[9] * dims), meta(*((6, 4) if transposed else (4, 6)), *[3] * dims)
    data.requires_grad_(wanted[0])
    weight.requires_grad_(wanted[1])

    def program():
        convolve(data, weight, **kind).sum().backward()

    counted = ours(program)
    assert counted == theirs(program)
    assert set(counted) == {"convolution", "convolution_backward"}


def test_products_have_the_flops_of_pytorchs_formulas():
    def program():
        meta(5, 7) @ meta(7, 9)
        torch.addmm(meta(9), meta(5, 7), meta(7, 9))
        meta(3, 5, 7) @ meta(3, 7, 9)
        torch.baddbmm(meta(3, 5, 9), meta(3, 5, 7), meta(3, 7, 9))

    assert ours(program) == theirs(program)
    assert ours(program) == {"mm": 630, "addmm": 630, "bmm": 1890, "baddbmm": 1890}


def test_grouped_products_have_the_flops_of_a_loop_over_the_groups():
    """Forward, and both gradients: 2 x 16 x 8 x 24 each, however the 16 rows are grouped."""

    def program():
        rows, weights = meta(16, 8).requires_grad_(), meta(3, 8, 24).requires_grad_()
        ends = torch.empty(3, dtype=torch.int32, device="meta")
        F.grouped_mm(rows.bfloat16(), weights.bfloat16(), offs=ends).square().sum().backward()

    assert ours(program) == {"_grouped_mm": 3 * 2 * 16 * 8 * 24}
    three = torch.ops.aten._grouped_mm.default
    a, b, out = meta(3, 4, 6), meta(3, 6, 5), meta(3, 4, 5)
    assert lookup(three).work((a, b), {}, out) == (3 * 2 * 4 * 6 * 5, ((4, 5, 6, 3),))


def test_grouped_products_take_as_long_as_a_batch_of_equal_ones():
    found = {}
    for name in "bmm", "grouped":
        with sim.machine(1, gpu="h100", numerics=False):
            rows = torch.empty(8, 4096, 2048, dtype=torch.bfloat16, device="sim")
            weights = torch.empty(8, 2048, 1536, dtype=torch.bfloat16, device="sim")
            ends = torch.empty(8, dtype=torch.int32, device="sim")
            if name == "bmm":
                torch.bmm(rows, weights)
            else:
                F.grouped_mm(rows.flatten(0, 1), weights, offs=ends)
            span = next(s for s in sim.trace() if s.name in ("bmm", "_grouped_mm"))
            found[name] = span.end - span.start
    assert found["grouped"] == pytest.approx(found["bmm"], rel=1e-6)


@pytest.mark.parametrize("groups", [1, 2, 4, 8])
@pytest.mark.parametrize("transposed", [False, True])
def test_groups_divide_the_work_forward_and_backward(groups, transposed):
    """One g-th of the channels meets one g-th: each of three products has 1/g of the FLOPs."""
    convolve = F.conv_transpose2d if transposed else F.conv2d

    def program(g):
        shape = (8, 16 // g) if transposed else (16, 8 // g)
        data, weight = meta(2, 8, 9, 9).requires_grad_(), meta(*shape, 3, 3).requires_grad_()
        return lambda: convolve(data, weight, groups=g).sum().backward()

    whole, parts = ours(program(1)), ours(program(groups))
    assert whole == {name: groups * flops for name, flops in parts.items()}
    assert whole["convolution_backward"] == 2 * whole["convolution"]


def durations(program, gpu="a100", numerics=True):
    (device,) = sim.configure(1, gpu=gpu, numerics=numerics)
    program(device)
    return {s.name: s.duration for s in sim.trace() if s.engine == "compute"}


@pytest.mark.slow
@pytest.mark.parametrize("numerics", [True, False])
@pytest.mark.parametrize("gpu", list(GPUS))
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_the_clock_goes_by_the_shape_of_a_product(gpu, numerics, dtype):
    m, n, k = 300, 500, 200
    options = {"dtype": getattr(torch, dtype)}

    def program(device):
        torch.empty(m, k, device=device, **options) @ torch.empty(k, n, device=device, **options)

    spec = find_gpu(gpu)
    assert durations(program, gpu, numerics)["mm"] == spec.matmul_seconds(m, n, k, dtype=dtype)
    share, usual = spec.efficiency(dtype, [(m, n, k, 1)]), spec.compute_efficiency
    has_tensor_cores = spec.flops[dtype] > spec.flops["float32"]
    assert (share < usual) if has_tensor_cores else (share == usual)


def test_a_convolution_is_the_product_of_pixels_and_channels():
    """Forward: pixels x output channels, over input channels and filter."""

    def program(device):
        data = torch.empty(32, 64, 30, 30, device=device)
        F.conv2d(data, torch.empty(128, 64, 3, 3, device=device), padding=1)

    for gpu in ("v100", "a100"):
        spec, rows, columns, depth = find_gpu(gpu), 32 * 900, 128, 64 * 9
        dtype = "tf32"  # what cuDNN uses; a V100 has no such arithmetic
        flops = 2 * rows * columns * depth
        share = spec.efficiency(dtype, [(rows, columns, depth, 1)])
        assert (share == spec.compute_efficiency) == (gpu == "v100")
        expected = spec.kernel_overhead + flops / (spec.flops[dtype] * share)
        assert durations(program, gpu, False)["convolution"] == pytest.approx(expected, rel=1e-12)


def test_the_backward_pass_of_a_convolution_is_two_products():
    """To the data: over output channels; to the weight: over pixels."""

    def program(device):
        data = torch.empty(32, 64, 30, 30, device=device, requires_grad=True)
        weight = torch.empty(128, 64, 3, 3, device=device, requires_grad=True)
        F.conv2d(data, weight, padding=1).sum().backward()

    rows = 32 * 900
    products = [(rows, 64, 128 * 9, 1), (128, 64 * 9, rows, 1)]
    seconds = sum(
        2 * m * n * k / (A100.flops["tf32"] * A100.efficiency("tf32", [(m, n, k, 1)]))
        for m, n, k, _ in products
    )
    found = durations(program, "a100", False)["convolution_backward"]
    assert found == pytest.approx(A100.kernel_overhead + seconds, rel=1e-12)


def test_the_efficiency_of_several_products_lies_between_theirs():
    small, large = (256, 256, 256, 1), (4096, 4096, 4096, 1)
    low, high = A100.efficiency("tf32", [small]), A100.efficiency("tf32", [large])
    assert low < A100.efficiency("tf32", [small, large]) < high
    assert A100.efficiency("tf32", [small] * 3) == pytest.approx(low)


def test_thin_products_are_limited_by_the_memory():
    """A matrix times a vector reads each of its values once."""
    n = 8192
    found = durations(
        lambda device: torch.empty(n, n, device=device) @ torch.empty(n, device=device)
    )
    reading = 4 * n * n / (A100.memory_bandwidth * A100.memory_efficiency)
    assert found["mv"] == pytest.approx(reading, rel=0.02)
    assert A100.efficiency("tf32", [(n, THIN - 1, n, 1)]) == pytest.approx(A100.matmul_efficiency)


def test_a_depthwise_convolution_is_limited_by_the_memory():
    def program(device):
        data = torch.empty(32, 64, 56, 56, device=device)
        F.conv2d(data, torch.empty(64, 1, 3, 3, device=device), padding=1, groups=64)

    moved = 2 * 4 * 32 * 64 * 56 * 56
    seconds = moved / (A100.memory_bandwidth * A100.memory_efficiency)
    assert durations(program, "a100", False)["convolution"] == pytest.approx(seconds, rel=0.1)


def test_without_multiprocessors_all_shapes_are_alike():
    plain = dataclasses.replace(A100, multiprocessors=None, matmul_efficiency=None)
    for m, n in itertools.product((16, 100, 5000), repeat=2):
        assert plain.efficiency("float16", [(m, n, m, 1)]) == plain.compute_efficiency
        assert plain.matmul_seconds(m, n, m) == plain.seconds(
            2 * m * n * m, 4 * (m * n + m * m + m * n)
        )


def test_no_product_has_no_shape():
    assert A100.efficiency("tf32") == A100.compute_efficiency
    assert A100.efficiency("tf32", [(0, 5, 5, 1)]) == A100.matmul_efficiency
    assert find_gpu("v100").efficiency("float16", [(0, 5, 5, 1)]) == BEST


def test_empty_products_cost_no_more_than_a_kernel():
    found = durations(
        lambda device: torch.empty(0, 5, device=device) @ torch.empty(5, 4, device=device)
    )
    assert found["mm"] < 1.01 * A100.kernel_overhead + 1e-9


@pytest.mark.parametrize(
    ("columns", "rows", "dtype", "slower"),
    [(2049, 2048, "bfloat16", True), (2048, 2049, "bfloat16", False),
     (2049, 2048, "float16", True), (2049, 2048, "float32", False)],
)  # fmt: skip
def test_rows_of_an_odd_number_of_16_bit_elements_are_slow(columns, rows, dtype, slower):
    """In all three products of a layer, even behind one of the same shapes in other rows."""

    def products(columns, rows):
        (device,) = sim.configure(1, gpu="a100", numerics=False)
        make = dict(device=device, dtype=getattr(torch, dtype), requires_grad=True)
        x, weight = torch.empty(rows, 1024, **make), torch.empty(columns, 1024, **make)
        sim.reset()
        y = x @ weight.t()
        y.backward(torch.empty_like(y))
        return sorted(s.end - s.start for s in sim.trace() if s.name == "mm")[-3:]

    wide = torch.empty(2048, 1024), torch.empty(1024, columns + 1)[:, :columns]
    for odd, even in zip(products(columns, rows), products(2048, 2048), strict=True):
        assert (odd > 1.8 * even) == slower
        assert odd < 2.6 * even
    assert len(lookup(aten.mm.default).work(wide, {}, wide[0] @ wide[1])[1][0]) == 4


def test_flops_are_a_number_while_sizes_are_traced():
    found = products.flops([(torch.tensor(2), 3, 4, 1)])
    assert (type(found), found) == (int, 48)
