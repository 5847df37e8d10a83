"""Every type of numbers runs at its own peak, or is refused by name: none at another one's."""

from dataclasses import replace

import pytest
import torch
from support.programs.clock_programs import spans

import simgpu as sim
from simgpu.hardware import GPUS

SIDE = 8192
FLOATS = {
    "float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}  # fmt: skip
E4M3 = torch.float8_e4m3fn


def empty(device, dtype, *shape):
    return torch.empty(*(shape or (SIDE, SIDE)), dtype=dtype, device=device)


def scaled(device, x, y, **options):
    one = torch.ones((), device=device)
    return torch._scaled_mm(x, y, scale_a=one, scale_b=one, **options)


def product(device, key):
    """A product of two square matrices at one peak."""
    if key == "float8":
        x = empty(device, E4M3)
        return lambda: scaled(device, x, x.t(), out_dtype=torch.bfloat16)
    if key == "int8":
        x = empty(device, torch.int8)
        return lambda: torch._int_mm(x, x)
    x = empty(device, torch.float32 if key == "tf32" else FLOATS[key])
    return lambda: x @ x


def seconds(run):
    sim.synchronize()
    sim.reset()
    run()
    return max(span.duration for span in spans(engine="compute") if span.flops)


@pytest.fixture
def tf32():
    """Let products of float32 numbers round them, or not."""
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    yield lambda allow: setattr(matmul, "allow_tf32", allow)
    matmul.allow_tf32 = before


@pytest.mark.parametrize("key", [*FLOATS, "tf32", "float8", "int8"])
@pytest.mark.parametrize("name", GPUS)
def test_a_large_product_takes_the_peaks_time_and_at_most_twice_that(name, key, tf32):
    tf32(key == "tf32")
    (device,) = sim.configure(1, gpu=name, numerics=False)
    run, gpu = product(device, key), GPUS[name]
    if key not in gpu.flops:
        with pytest.raises(
            NotImplementedError, match=rf"needs units for {key}, which {name} lacks: .*float16"
        ):
            run()
        return
    least = 2 * SIDE**3 / gpu.flops[key]
    assert least <= seconds(run) <= 2 * least


def test_eight_bits_take_half_the_time_of_sixteen():
    (device,) = sim.configure(1, gpu="h100", numerics=False)
    sixteen, *eight = (seconds(product(device, key)) for key in ("bfloat16", "float8", "int8"))
    assert all(x == pytest.approx(sixteen / 2, rel=0.02) for x in eight)


def test_the_public_functions_of_scaled_products_take_as_long():
    (device,) = sim.configure(1, gpu="h100", numerics=False)
    x, one = empty(device, E4M3), torch.ones((), device=device)
    recipe = torch.nn.functional.ScalingType.TensorWise
    public = seconds(lambda: torch.nn.functional.scaled_mm(
        x, x.t(), one, recipe, one, recipe, output_dtype=torch.bfloat16
    ))  # fmt: skip
    assert public == seconds(product(device, "float8"))


def test_weights_of_few_bits_are_read_in_eight_and_multiplied_in_sixteen():
    (device,) = sim.configure(1, gpu="a100", numerics=False)
    rows = empty(device, torch.bfloat16, 8, SIDE)
    weights, scales = empty(device, torch.int8), empty(device, torch.bfloat16, SIDE)
    sim.reset()
    torch._weight_int8pack_mm(rows, weights, scales)
    (span,) = (span for span in spans(engine="compute") if span.flops)
    assert span.flops == 2 * 8 * SIDE**2
    assert span.bytes == rows.nbytes + weights.nbytes + scales.nbytes + rows.nbytes


@pytest.mark.parametrize("numerics", [True, False])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, E4M3])
def test_products_of_types_that_cuda_does_not_multiply_are_refused(dtype, numerics):
    (device,) = sim.configure(1, gpu="h100", numerics=numerics)
    x = torch.ones(32, 32, device=device).to(dtype)
    with pytest.raises(NotImplementedError, match=f'"mm" is not implemented for {dtype} on GPUs'):
        x @ x


def test_the_host_multiplies_integers():
    sim.configure(1)
    x = torch.ones(32, 32, dtype=torch.int64)
    with sim.host_ops("laptop4"):
        assert (x @ x).eq(32).all()


@pytest.mark.parametrize("numerics", [True, False])
@pytest.mark.parametrize(
    ("run", "why"),
    [
        (lambda x: scaled(x.device, x, x), r"mat2 col_major \(y.t\(\)\), got strides"),
        (lambda x: scaled(x.device, x[:, :24].contiguous(), x[:, :24].contiguous().t()),
         r"divisible by 16, got \(32, 24\) and \(24, 32\)"),
        (lambda x: scaled(x.device, x.to(torch.float8_e5m2), x.to(torch.float8_e5m2).t()),
         "two Float8_e5m2 matrices"),
        (lambda x: torch._int_mm(x.to(torch.int8)[:16], x.to(torch.int8)),
         "greater than 16, but got 16"),
        (lambda x: torch._int_mm(x.to(torch.int8), x.to(torch.int8)[:, :20]),
         "positive multiple of 8, but got 20"),
    ],
)  # fmt: skip
def test_what_cuda_refuses_of_eight_bit_products_is_refused(run, why, numerics):
    (device,) = sim.configure(1, gpu="h100", numerics=numerics)
    x = torch.ones(32, 32, device=device).to(E4M3)
    with pytest.raises(RuntimeError, match=why):
        run(x)


def test_eight_bit_products_have_the_values_of_the_host():
    (device,) = sim.configure(1, gpu="h100")
    x, y = (torch.randn(32, 32, generator=torch.Generator().manual_seed(n)) for n in (0, 1))
    a, b = x.to(E4M3), y.to(E4M3).t()
    found = scaled(device, a.to(device), y.to(E4M3).to(device).t(), out_dtype=torch.float32)
    torch.testing.assert_close(found.cpu(), a.float() @ b.float(), rtol=1e-5, atol=1e-5)
    a, b = (10 * x).to(torch.int8), (10 * y).to(torch.int8)
    found = torch._int_mm(a.to(device), b.to(device)).cpu()
    assert torch.equal(found, a.int() @ b.int())


def test_a_rate_that_is_left_out_is_refused_where_it_is_needed():
    flops = {key: rate for key, rate in GPUS["rtx3090"].flops.items() if key != "float64"}
    (device,) = sim.configure(1, gpu=replace(GPUS["rtx3090"], name="mine", flops=flops))
    x = torch.ones(32, 32, dtype=torch.float64, device=device)
    assert (x + 1).sum().item() == 2048, "no product: the memory limits it"
    with pytest.raises(NotImplementedError, match="needs units for float64, which mine lacks"):
        x @ x
