"""Each row of the table of costs that has a rule of its own is charged by it."""

import pytest
import torch
from support.programs.clock_programs import settle, spans

import simgpu as sim
from simgpu.kernels.facts import aten, lookup
from simgpu.kernels.table import TABLE, kernel_of

N = 4096  # float32 numbers of x, y and z
K = 16  # of the indices, and of what is given or taken
BYTES = 4 * N


# Name of an operation: a call on x, y, indices and given numbers; below, the bytes that it moves.
FILL = dict.fromkeys(
    ("fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "cauchy_",
     "log_normal_", "geometric_"), BYTES
)  # fmt: skip
LIKE = dict.fromkeys(("zeros_like", "ones_like", "rand_like", "randn_like"), BYTES)
INDICES = 8 * K
SCATTERED = INDICES + 3 * 4 * K  # they read and write the places that the numbers go to
CALLS = {
    **{name: lambda x, y, i, v, n=name: getattr(x, n)(*_arguments(n)) for name in FILL},
    **{name: lambda x, y, i, v, n=name: getattr(torch, n)(x) for name in LIKE},
    "full_like": lambda x, y, i, v: torch.full_like(x, 2.0),
    "randint_like": lambda x, y, i, v: torch.randint_like(x, 9),
    "new_zeros": lambda x, y, i, v: x.new_zeros(N),
    "new_ones": lambda x, y, i, v: x.new_ones(N),
    "new_full": lambda x, y, i, v: x.new_full((N,), 2.0),
    "_foreach_zero_": lambda x, y, i, v: torch._foreach_zero_([x, y]),
    "copy_": lambda x, y, i, v: x.copy_(y),
    "_foreach_copy_": lambda x, y, i, v: torch._foreach_copy_([x], [y]),
    "index": lambda x, y, i, v: x[i],
    "_unsafe_index": lambda x, y, i, v: aten._unsafe_index(x, [i]),
    "gather": lambda x, y, i, v: x.gather(0, i),
    "index_select": lambda x, y, i, v: x.index_select(0, i),
    "take": lambda x, y, i, v: x.take(i),
    "embedding": lambda x, y, i, v: torch.nn.functional.embedding(i, x.view(-1, 1)),
    "index_put_": lambda x, y, i, v: x.index_put_([i], v),
    "_index_put_impl_": lambda x, y, i, v: aten._index_put_impl_(x, [i], v),
    "scatter_": lambda x, y, i, v: x.scatter_(0, i, v),
    "scatter_add_": lambda x, y, i, v: x.scatter_add_(0, i, v),
    "index_add_": lambda x, y, i, v: x.index_add_(0, i, v),
    "index_copy_": lambda x, y, i, v: x.index_copy_(0, i, v),
    "index_fill_": lambda x, y, i, v: x.index_fill_(0, i, v.sum()),
}
MOVED = {
    **FILL, **LIKE,
    **dict.fromkeys(("full_like", "randint_like", "new_zeros", "new_ones", "new_full"), BYTES),
    "_foreach_zero_": 2 * BYTES, "copy_": 2 * BYTES, "_foreach_copy_": 2 * BYTES,
    **dict.fromkeys(("index", "_unsafe_index", "gather", "index_select", "take"),
                    INDICES + 2 * 4 * K),
    **dict.fromkeys(("index_put_", "_index_put_impl_", "scatter_", "scatter_add_", "index_add_",
                     "index_copy_"), SCATTERED),
    "embedding": INDICES + 2 * 4 * K,
    "index_fill_": INDICES + 3 * 4,  # of the one number that is given
}  # fmt: skip


def _arguments(name):
    return {"fill_": (2.0,), "bernoulli_": (0.5,), "geometric_": (0.5,)}.get(name, ())


@pytest.mark.parametrize("numerics", [True, False])
@pytest.mark.parametrize("name", CALLS)
def test_memory_is_moved_as_the_row_says(name, numerics):
    (device,) = sim.configure(1, numerics=numerics)
    x, y = (torch.ones(N, device=device) for _ in range(2))
    indices = torch.arange(K, device=device)
    given = torch.ones(K, device=device)
    settle()
    CALLS[name](x, y, indices, given)
    span = spans(engine="compute")[-1]
    assert (span.name, span.bytes) == (name.rstrip("_"), MOVED[name])


@pytest.mark.parametrize("scale", [None, 2.0])
@pytest.mark.parametrize("kind", ["Adam", "AdamW", "SGD", "Adagrad"])
def test_a_fused_optimiser_writes_gradients_only_to_unscale_them(kind, scale):
    (device,) = sim.configure(1, numerics=False)
    weight = torch.nn.Parameter(torch.ones(N, device=device))
    options = {"momentum": 0.9} if kind == "SGD" else {}
    optimizer = getattr(torch.optim, kind)([weight], fused=True, lr=0.1, **options)
    weight.grad = torch.ones_like(weight)
    optimizer.step()  # makes the states
    if scale is not None:
        optimizer.grad_scale = torch.ones((), device=device)
    settle()
    optimizer.step()
    span = next(s for s in spans(engine="compute") if s.name.startswith("_fused"))
    states = {"Adam": 2, "AdamW": 2, "SGD": 1, "Adagrad": 1}[kind]
    tensors = 2 * (1 + states) + 1 + (scale is not None)  # read and written; the gradient
    assert span.bytes == pytest.approx(tensors * BYTES, rel=0.01)


def test_every_row_with_a_rule_for_bytes_has_a_case_here():
    stated = {name for name, kernel in TABLE.items() if kernel and kernel.bytes}
    optimizers = {f"aten::_fused_{name}_" for name in ("adam", "adamw", "sgd", "adagrad")}
    assert stated == {f"aten::{name}" for name in CALLS} | optimizers


@pytest.mark.parametrize(
    ("func", "kind"),
    [
        (aten.add.Tensor, "pointwise"), (aten.gelu.default, "pointwise"),
        (aten.sum.dim_IntList, "reduction"), (aten._softmax.default, "reduction"),
        (aten.native_layer_norm.default, "reduction"), (aten.mm.default, "product"),
        (aten.convolution.default, "product"), (aten.native_dropout.default, "draw"),
        (aten._scaled_dot_product_flash_attention.default, "attention"),
        (aten._foreach_add_.List, "pointwise"), (aten._fused_adamw_.default, "pointwise"),
        (aten.clone.default, "copy"), (aten.embedding.default, "gather"),
        (aten.embedding_dense_backward.default, "scatter"), (aten.sort.default, "other"),
    ],
)  # fmt: skip
def test_kinds(func, kind):
    assert kernel_of(func).kind == kind


def test_what_has_no_kernel_launches_nothing():
    assert all(lookup(f).kernel is None for f in (aten.view.default, aten.empty_like.default))
