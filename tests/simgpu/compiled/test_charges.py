"""What compiled code takes: the kernels of a plan, one call of the host, and its memory."""

import functools

import pytest
import torch
import torch.nn.functional as F
from support.programs.clock_programs import PROMPT, elapsed, spans
from torch import nn
from torch.utils.checkpoint import checkpoint

import simgpu as sim
from simgpu.compiled.regions import Region, Settings
from simgpu.hardware.assumptions import COMPILED_CALL

N = 1024
SIZE = 4 * N * N


def kernels(run):
    """Return the spans of the kernels of a call."""
    elapsed(run)
    return spans(engine="compute")


@pytest.fixture
def x():
    (device,) = sim.configure(1, gpu=PROMPT, numerics=False)
    return torch.ones(N, N, device=device)


@pytest.mark.parametrize("operation", [torch.relu, torch.mm, torch.sum])
def test_one_operation_costs_what_it_does_in_eager_code_and_the_call(operation):
    for gpu in ("a100", PROMPT):
        (device,) = sim.configure(1, gpu=gpu, numerics=False)
        x = torch.ones(4 * N, 4 * N, device=device)
        inputs = [x] * (2 if operation is torch.mm else 1)
        region = Region(operation)
        eager, compiled = (elapsed(lambda f=f, x=inputs: f(*x)) for f in (operation, region))
        extra = len(spans(engine="compute")) - 1  # a sum has a second stage
        assert compiled == pytest.approx(eager + COMPILED_CALL, abs=1e-9 + extra * 10e-6)
        assert compiled > eager


def chain(x, n):
    for _ in range(n):
        x = (x * 2).sin()
    return x


@pytest.mark.parametrize("n", [1, 2, 5, 10])
def test_a_chain_moves_each_operand_once(x, n):
    (kernel,) = kernels(lambda: Region(chain)(x, n))
    assert kernel.bytes == 2 * SIZE
    assert len(kernels(lambda: chain(x, n))) == 2 * n


def test_compile_makes_regions_where_torch_compile_cannot(x):
    (kernel,) = kernels(lambda: sim.compile(chain)(x, 3))
    assert kernel.bytes == 2 * SIZE
    net = nn.Sequential(nn.Linear(N, N), nn.GELU(), nn.Tanh()).to(x.device)
    names = [kernel.name for kernel in kernels(lambda: sim.compile(net)(x).sum().backward())]
    assert "triton_poi_fused_gelu_tanh" in names
    assert not {"gelu", "tanh", "gelu_backward", "tanh_backward"} & set(names)
    with pytest.raises(RuntimeError, match="fullgraph"):
        sim.compile(lambda x: x + (x + 1).cpu().to(x.device), fullgraph=True)(x)
    with pytest.raises(ValueError, match="mode='fast' is none of default, reduce-overhead"):
        sim.compile(chain, mode="fast")


def test_a_chain_of_several_inputs(x):
    others = [torch.ones_like(x) for _ in range(3)]
    (kernel,) = kernels(lambda: Region(lambda x, *o: x * o[0] + o[1] * o[2] - x)(x, *others))
    assert kernel.bytes == 5 * SIZE


def test_pooling_to_a_size_is_pointwise(x):
    """The size says nothing of dimensions."""
    images = x.view(16, 16, 64, 64)
    (kernel,) = kernels(lambda: Region(lambda x: F.adaptive_avg_pool2d(x, 32) + 1)(images))
    assert kernel.name == "triton_poi_fused_adaptive_avg_pool2d_add"
    assert kernel.bytes == SIZE + SIZE // 4


def test_what_nobody_reads_is_not_computed(x):
    def wasteful(x):
        x.exp().sin()
        return x * 2

    (kernel,) = kernels(lambda: Region(wasteful)(x))
    assert kernel.name == "triton_poi_fused_mul"


def test_the_name_says_what_is_in_a_kernel(x):
    found = kernels(lambda: Region(lambda x: ((x + 1).relu() @ x).tanh())(x))
    assert [kernel.name for kernel in found] == [
        "triton_poi_fused_add_relu", "mm", "triton_poi_fused_tanh"
    ]  # fmt: skip


def test_reduce_overhead_takes_one_launch_a_graph():
    (device,) = sim.configure(1, gpu="a100", numerics=False)
    x, model = torch.ones(64, 64, device=device), nn.Sequential(*[nn.Linear(64, 64)] * 20)
    model.to(device)
    launch = sim.GPUS["a100"].launch_overhead

    def host(one_launch):
        region = Region(model, Settings(one_launch))
        elapsed(lambda: None)
        with torch.no_grad():
            region(x)
        return sim.now(), len(spans(engine="compute"))

    (default, many), (reduced, with_copy) = host(False), host(True)
    assert many == with_copy - 1 == 20
    assert default == pytest.approx(COMPILED_CALL + 20 * launch)
    assert reduced == pytest.approx(COMPILED_CALL + 2 * launch)
    model(x)
    assert sim.now() > reduced + launch  # the device charges launches again


def test_a_cuda_graph_reads_copies_of_what_is_not_a_parameter(x):
    weight = nn.Parameter(torch.ones(N, N, device=x.device))
    graphs = [Region(lambda x: (x @ weight).relu(), Settings(one_launch=True)) for _ in range(2)]

    def copies(run):
        return [kernel.bytes for kernel in kernels(run) if kernel.name == "_foreach_copy_"]

    def run(x):
        for graph in graphs:  # what the first has made, the second reads where it is
            x = graph(x)
        return x

    before, y = sim.memory_allocated(), None
    with torch.no_grad():
        assert copies(lambda: run(x)) == [2 * SIZE]
        assert sim.memory_allocated() == before + SIZE  # it stays where the graph reads it
        assert copies(lambda: run(x)) == [2 * SIZE]
        assert sim.memory_allocated() == before + SIZE
    y = run(x)
    assert copies(lambda: y.backward(torch.ones_like(y))) == [2 * SIZE]  # what is outside of graphs


def test_a_cuda_graph_copies_each_of_two_inputs_in_one_memory(x):
    upper, lower = x.chunk(2)
    graph = Region(lambda a, b: a.mm(b.T), Settings(one_launch=True))
    copies = [k.bytes for k in kernels(lambda: graph(upper, lower)) if k.name == "_foreach_copy_"]
    assert copies == [2 * SIZE]


class Block(nn.Module):
    def __init__(self, heads=4, width=64):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x):
        b, t, c = x.shape
        parts = self.qkv(self.norms[0](x)).view(b, t, 3, self.heads, c // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
        hidden = torch.ones(t, t, device=x.device, dtype=torch.bool).tril().logical_not()
        y = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norms[1](x))


class LanguageModel(nn.Module):
    def __init__(self, make_block=Block, outside=False):
        super().__init__()
        self.embed, self.head = nn.Embedding(512, 64), nn.Linear(64, 512)
        self.blocks = nn.ModuleList(make_block() for _ in range(3))
        self.outside = outside

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.outside else block(x)
        return F.cross_entropy(self.head(x).view(-1, 512), tokens.view(-1))


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
        )  # fmt: skip

    def forward(self, x):
        x = x.view(-1, 1, 8, 8).expand(-1, 3, 8, 8).float()
        return self.net(x).square().mean()


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.gate, self.down = (nn.Linear(64, 64, bias=False) for _ in range(3))

    def forward(self, x):
        x = x.float()
        for _ in range(4):
            y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
            x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return x.square().mean()


def whole(model):
    return Region(model)


def by_blocks(model):
    for block in model.blocks:
        block.forward = Region(block.forward)
    return model


def checkpointed(model):
    model.outside = True
    return by_blocks(model)


CASES = [
    (LanguageModel, whole), (LanguageModel, by_blocks), (LanguageModel, checkpointed),
    (Images, whole), (Gated, whole),
]  # fmt: skip


def step(make, compile):
    """Return bytes moved, peak and rest of memory of the second step of training a model."""
    (device,) = sim.configure(1, gpu="a100", numerics=False)
    model = make().to(device)
    call = compile(model)
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.zeros(8, 64, dtype=torch.long, device=device)
    for _ in range(2):
        elapsed(lambda: None)
        sim.reset_peak_memory_stats()
        call(tokens).backward()
        moved, peak = sum(s.bytes for s in spans(engine="compute")), sim.max_memory_allocated()
        optimizer.step()
        optimizer.zero_grad()
    return moved, peak, sim.memory_allocated()


def unchanged(model):
    model.outside = True
    return model


@pytest.mark.parametrize(("make", "compile"), CASES)
def test_neither_more_bytes_nor_more_memory_than_eager_code(make, compile):
    eager = step(make, unchanged if compile is checkpointed else lambda model: model)
    compiled = step(make, compile)
    logits = 4 * 8 * 64 * 512
    assert compiled[0] < eager[0]
    assert compiled[1] <= eager[1] + logits
    assert compiled[1] > 0.4 * eager[1]
    assert compiled[2] == eager[2]


def test_a_compiled_optimizer_keeps_its_state():
    def after(compile):
        (device,) = sim.configure(1, numerics=False)
        model = nn.Linear(N, N).to(device)
        optimizer = torch.optim.AdamW(model.parameters())
        step = compile(optimizer.step)
        found = []
        for _ in range(3):
            model(torch.ones(1, N, device=device)).sum().backward()
            step()
            found.append(sim.memory_allocated())
        return found

    assert after(Region) == after(lambda step: step)


def test_a_compiled_step_keeps_what_eager_code_keeps():
    def after(compile):
        (device,) = sim.configure(1, numerics=False)
        model = nn.Sequential(nn.Linear(N, N), nn.GELU(), nn.Linear(N, N)).to(device)
        optimizer = torch.optim.AdamW(model.parameters())

        def step(x):
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()

        step, found = compile(step), []
        for _ in range(3):
            step(torch.ones(8, N, device=device))
            found.append(sim.memory_allocated())
        return found

    assert after(Region) == after(lambda step: step)


def test_less_is_kept_for_the_backward_pass(x):
    weight = torch.ones(N, requires_grad=True, device=x.device)

    def activations(x, weight):
        return F.gelu(x * weight).sin().exp().sum(1)

    def kept(function):
        before = sim.memory_allocated()
        out = function(x, weight)
        return sim.memory_allocated() - before, out

    (eager, _), (compiled, _) = kept(activations), kept(Region(activations))
    assert eager > 3 * SIZE
    assert compiled < 0.01 * SIZE


class Caches(nn.Module):
    def __init__(self, way):
        super().__init__()
        self.inner, self.way, self.seen = nn.GELU(), way, []
        self.register_buffer("last", None)

    def forward(self, x):
        y = x * 2
        if self.way == "attribute":
            self.inner.cache = y
        if self.way == "list":
            self.seen.append(y)
        if self.way == "buffer":
            self.last = y
        return self.inner(y).sum(1)


@pytest.mark.parametrize("way", ["attribute", "list", "buffer", "closure", None])
def test_what_a_module_leaves_behind_is_written(way):
    (device,) = sim.configure(1, gpu=PROMPT, numerics=False)
    x = torch.ones(N, N, device=device, requires_grad=True)
    module, around = Caches(way), []

    def function(x):
        y = x * 2
        around.append(y)
        return F.gelu(y).sum(1)

    before = sim.memory_allocated()
    out = Region(function if way == "closure" else module)(x)
    kept = sim.memory_allocated() - before - out.nbytes
    assert kept == (0 if way is None else SIZE)


def test_an_input_that_is_needed_again_stays():
    (device,) = sim.configure(1, numerics=False)
    leaf = torch.ones(N, N, device=device, requires_grad=True)
    region = Region(lambda x: x.sin().exp())
    before = sim.memory_allocated()
    out = region(leaf * 2)  # nothing else holds the product, and the sine is computed from it
    assert sim.memory_allocated() - before == 2 * SIZE
    out.sum().backward()
    del out
    assert sim.memory_allocated() - before == SIZE


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_is_computed_again_takes_memory(reentrant):
    """The region that a backward pass opens again stands in the region of that pass."""

    def peak(compile):
        (device,) = sim.configure(1, numerics=False)
        blocks = nn.ModuleList(nn.Sequential(*[nn.Linear(N, N)] * 6) for _ in range(3)).to(device)
        x = torch.ones(8 * N, N, device=device, requires_grad=True)
        before = sim.memory_allocated()
        for block in blocks:
            x = checkpoint(compile(block), x, use_reentrant=reentrant)
        x.square().sum().backward()
        return sim.max_memory_allocated() - before

    eager = peak(lambda block: block)
    assert 0.85 * eager < peak(Region) <= eager


def test_calls_leave_nothing_at_their_inputs(x):
    weight = torch.ones(N, N, device=x.device, requires_grad=True)
    region = Region(lambda x, weight: (x @ weight).relu().sum())
    for backward in (True, False):
        for _ in range(3):
            out = region(x, weight)
            assert len(weight._backward_hooks) == 1
            if backward:
                out.backward()
                assert not weight._backward_hooks
        del out
        assert not weight._backward_hooks
    weight.grad = None
    assert sim.memory_allocated() == 2 * SIZE


def test_other_devices_are_charged_as_eager_code():
    first, second = sim.configure(2)
    model = nn.Linear(8, 8).to(first)
    region = Region(lambda x: (model(x).relu() + 1).to(second).relu() + 1)
    region(torch.ones(4, 8, device=first)).sum()
    names = {device: [s.name for s in spans(device=device, engine="compute")] for device in
             ("sim:0", "sim:1")}  # fmt: skip
    assert [name.startswith("triton") for name in names["sim:0"][-2:]] == [False, True]
    assert names["sim:1"] == ["relu", "add", "sum"]


def test_the_race_detector_sees_what_is_compiled():
    (device,) = sim.configure(1)
    region = Region(nn.Linear(8, 8).to(device))
    x, side = torch.ones(4, 8, device=device), sim.Stream(device)
    with sim.check_races():
        y = region(x)
        with side:
            side.wait_stream(sim.default_stream())
            z = region(y)
        with pytest.raises(sim.RaceError):
            region(z)


def test_the_backward_pass_of_a_region_ends_with_its_own_nodes(x):
    """What uses an input of the region beside it is eager code, forward and backward."""
    y, out = x.clone().requires_grad_(), {}
    hidden = y * 2

    def step():
        out["loss"] = Region(lambda h: h.sin() * h)(hidden).mm(x) + hidden.cos().exp()
        out["loss"].sum().backward(retain_graph=True)

    names = [span.name for span in kernels(step)]
    fused = [name for name in names if name.startswith("triton")]
    assert len(fused) == 2
    assert {"exp", "cos", "sin", "neg"} <= set(names)


def test_a_gradient_that_a_hook_takes_is_computed(x):
    """As that of a buffer of Megatron's, to which a product adds it."""
    weight = torch.ones(N, N, device=x.device, requires_grad=True)

    def drop(parameter):
        parameter.grad = None

    weight.register_post_accumulate_grad_hook(drop)
    y = x.clone().requires_grad_()
    step = Region(lambda y: (y.sin() @ weight).cos())
    names = [span.name for span in kernels(lambda: step(y).sum().backward())]
    assert names.count("mm") == 3


def test_a_region_that_is_checkpointed_is_itself_when_it_is_done_again(x):
    """Only a checkpoint inside a region has rules of its own."""
    y, region = x.clone().requires_grad_(), Region(lambda y: (y.sin() * y).cos() * y)

    def backward(run):
        y.grad, out = None, run(y)
        return [(span.name, span.bytes) for span in kernels(lambda: out.sum().backward())]

    *before, last = backward(region)
    forward = [(span.name, span.bytes) for span in kernels(lambda: region(y))]
    again = backward(lambda y: checkpoint(region, y, use_reentrant=False))
    assert again == [*before, *forward, last]


def test_hooks_of_any_kind_may_stand_for_saved_tensors(x):
    """Those that are no functions have no name, and a weak reference to a method is dead."""

    class Hooks:
        __slots__ = ()

        def __call__(self, tensor):
            return tensor

        def pack(self, tensor):
            return tensor

    y, region = x.clone().requires_grad_(), Region(lambda y: (y.sin() * y).cos() * y)
    plain = kernels(lambda: region(y))
    for pack in (functools.partial(torch.Tensor.view_as, other=x), Hooks(), Hooks().pack):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            assert [s.name for s in kernels(lambda: region(y))] == [s.name for s in plain]


def test_eager_code_in_a_checkpoint_stays_eager_when_it_is_done_again(x):
    """Also what a compiled function's backward pass is the first one to need."""
    y, region = x.clone().requires_grad_(), Region(lambda y: (y.sin() * y).cos() * y)

    def layer(y):
        return region(y.exp() * y.tanh())

    def backward(out):
        return [span.name for span in kernels(lambda: out.sum().backward())]

    again = backward(checkpoint(layer, y, use_reentrant=False))
    y.grad = None
    plain = backward(layer(y))
    forward = [span.name for span in kernels(lambda: layer(y))]
    assert forward[:3] == ["exp", "tanh", "mul"]
    assert sorted(again) == sorted(plain + forward)


def halves(x):
    out = torch.empty_like(x)
    out[: N // 2] = x[: N // 2].mm(x)
    out[N // 2 :] = x[N // 2 :].mm(x)
    return out


def masked(x):
    y = x.mm(x)
    y[0] = 0
    return y


@pytest.mark.parametrize("after", [lambda y: y, lambda y: y.sum(1), lambda y: y.mm(y)])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("write", [halves, masked])
def test_what_is_written_to_other_parts_of_a_tensor_is_computed(x, write, training, after):
    def products(call):
        return sum(span.name == "mm" for span in kernels(lambda: call(x)))

    x = x.requires_grad_(training)
    wanted = products(lambda x: after(write(x)))
    assert products(Region(lambda x: after(write(x)))) == wanted > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.new_zeros(0, N), lambda x: torch.rand(0, N, device=x.device),
        lambda x: torch.zeros(0, N, device=x.device), lambda x: x[:0] * 2,
    ],
)  # fmt: skip
def test_what_has_no_elements_takes_no_kernel(x, make):
    found = kernels(lambda: Region(lambda x: (torch.cat([make(x), x]) * 2, make(x)))(x))
    assert len(found) == 1
