"""Attention of several ranks: sharded heads, ring attention, and each rank's choice of a kernel."""

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import (
    _cp_options,
    context_parallel_unshard,
    set_rotate_method,
)
from torch.nn.attention import SDPBackend, sdpa_kernel

import simgpu as sim

BF16, FP32 = torch.bfloat16, torch.float32


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def reference(tensors, grad, **kwargs):
    """Return output and gradients on the host, in float64."""
    leaves = [x.double().requires_grad_() for x in tensors]
    out = F.scaled_dot_product_attention(*leaves, **kwargs)
    out.backward(grad.double())
    return [out.detach(), *(x.grad for x in leaves)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpu", "dtype", "mask"),
    [
        *(("a100", FP32, mask) for mask in (False, True)),
        *(("a100", BF16, mask) for mask in (False, True)),
        ("h100", BF16, False),  # with a mask, DTensor's own rule for cuDNN fails
    ],
)
def test_sharded_heads(gpu, dtype, mask):
    tensors = [draw(2, 8, 12, 16, seed=i).to(dtype) for i in range(4)]
    seen = draw(2, 1, 12, 12, seed=9) > -1 if mask else None
    how = {"attn_mask": seen} if mask else {"is_causal": True}
    expected = reference(tensors[:3], tensors[3], **how)

    def program(rank):
        dist.init_process_group()
        mesh = init_device_mesh("sim", (4,))
        q, k, v, grad = (distribute_tensor(x.to("sim"), mesh, [Shard(1)]) for x in tensors)
        leaves = [x.requires_grad_() for x in (q, k, v)]
        own = dict(how)
        if mask:
            own["attn_mask"] = distribute_tensor(seen.to("sim"), mesh, [Replicate()])
        out = F.scaled_dot_product_attention(*leaves, **own)
        out.backward(grad)
        assert out.placements == leaves[0].grad.placements == (Shard(1),)
        names = {s.name for s in sim.trace() if "attention" in s.name and s.engine == "compute"}
        return names, [x.full_tensor().cpu() for x in (out.detach(), *(x.grad for x in leaves))]

    kernel = "efficient" if dtype is FP32 else "flash" if gpu == "a100" else "cudnn"
    kernel = "efficient" if mask and gpu == "a100" else kernel
    for names, found in sim.spawn(program, nprocs=4, gpu=gpu):
        prefix = f"_scaled_dot_product_{kernel}_attention"
        assert names == {prefix, f"{prefix}_backward"}
        for one, other in zip(found, expected, strict=True):
            near = 3e-6 if dtype is FP32 else 0.03
            torch.testing.assert_close(one.double(), other, rtol=0, atol=near)


@pytest.mark.sample(2)
@pytest.mark.slow
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    ("gpu", "dtype", "backend"),
    [
        ("a100", BF16, SDPBackend.FLASH_ATTENTION),
        ("a100", FP32, SDPBackend.EFFICIENT_ATTENTION),
        ("h100", BF16, SDPBackend.CUDNN_ATTENTION),
    ],
)
def test_context_parallel_is_attention_of_the_whole_sequence(gpu, dtype, backend, causal):
    """The memory-efficient kernel's sums come in steps of 32: each part has 2 x 32 places."""
    tensors = [draw(1, 2, 256, 16, seed=i).to(dtype) for i in range(4)]
    expected = reference(tensors[:3], tensors[3], is_causal=causal)

    def program(rank):
        dist.init_process_group()
        mesh = init_device_mesh("sim", (4,))
        _cp_options.enable_load_balance = causal
        results = []
        for rotate in ("allgather", "alltoall"):
            set_rotate_method(rotate)
            parts = [x.to("sim") for x in tensors]
            with context_parallel(mesh, buffers=parts, buffer_seq_dims=[2] * 4):
                assert parts[0].shape[2] == 64
                leaves = [x.detach().requires_grad_() for x in parts[:3]]
                with sdpa_kernel(backend):
                    out = F.scaled_dot_product_attention(*leaves, is_causal=causal)
                    out.backward(parts[3])
            whole = [out.detach(), *(x.grad for x in leaves)]
            results += [x.cpu() for x in context_parallel_unshard(mesh, whole, [2] * 4)]
        return results

    try:
        results = sim.spawn(program, nprocs=4, gpu=gpu)
    finally:
        _cp_options.enable_load_balance = True
        set_rotate_method("allgather")
    for found in results:
        for one, other in zip(found, expected * 2, strict=True):
            near = 3e-6 if dtype is FP32 else 0.03
            torch.testing.assert_close(one.double(), other, rtol=0, atol=near)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_sharded_heads_without_gradients(mode):
    whole = draw(2, 4, 12, 16).to(BF16)

    def program(rank):
        dist.init_process_group()
        mesh = init_device_mesh("sim", (2,))
        with mode():
            x = distribute_tensor(whole.to("sim"), mesh, [Shard(1)])
            out = F.scaled_dot_product_attention(x, x, x, is_causal=True).full_tensor()
            alone = whole.to("sim")
            alone = F.scaled_dot_product_attention(alone, alone, alone, is_causal=True)
        return torch.equal(out, alone)

    assert sim.spawn(program, nprocs=2, gpu="a100") == [True] * 2


def test_a_rank_chooses_for_itself():
    def program(rank):
        dist.init_process_group()
        x = torch.ones(1, 1, 8, 8, dtype=BF16, device="sim")
        backend = [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION][rank]
        with sdpa_kernel(backend):
            dist.barrier()  # the other rank runs, inside its block
            found = torch._fused_sdp_choice(x, x, x)
            dist.barrier()
        return found == backend.value, torch._fused_sdp_choice(x, x, x)

    flash = SDPBackend.FLASH_ATTENTION.value
    assert sim.spawn(program, nprocs=2, gpu="a100") == [(True, flash)] * 2
    assert torch.backends.cuda.math_sdp_enabled()
