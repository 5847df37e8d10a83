"""What simulated GPUs refuse, and how they say it."""

import pytest
import torch

import simgpu as sim
from simgpu.clock import current


@pytest.mark.parametrize("k", [0, -1, 1.0, "2", True, None, 129])
def test_number_of_gpus(k):
    with pytest.raises(ValueError, match="from 1 to 128"):
        sim.configure(k)


def test_the_largest_machine():
    devices = sim.configure(128, numerics=False)
    assert torch.ones(2, device=devices[-1]).to(devices[0]).device == devices[0]


@pytest.mark.parametrize(
    ("arguments", "known"),
    [({"gpu": "v1000"}, "v100"), ({"link": "pcie9"}, "pcie5"), ({"gpu": 3}, "a100")],
)
def test_unknown_presets_name_the_known_ones(arguments, known):
    (device,) = sim.configure(1)
    with pytest.raises(ValueError, match=known):
        sim.configure(2, **arguments)
    assert torch.ones(1, device=device).item() == 1  # the machine before it is still there


@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.ones(1, device="sim:2"),
        lambda: torch.ones(1).to("sim:2"),
        lambda: torch.ones(1, device="sim:0").to("sim:2"),
        lambda: sim.Stream("sim:2"),
        lambda: sim.synchronize("sim:2"),
        lambda: sim.memory_allocated(2),
        lambda: sim.set_device(2),
    ],
)
def test_a_device_that_does_not_exist(use):
    sim.configure(2)
    with pytest.raises(ValueError, match=r"no sim:2.*2 simulated GPU.*configure\(3\)"):
        use()
    sim.synchronize()


@pytest.mark.parametrize("device", ["cpu", "meta", -1, "gpu:0"])
def test_what_is_no_simulated_device(device):
    sim.configure(1)
    with pytest.raises((ValueError, RuntimeError)):
        sim.synchronize(device)
    with pytest.raises((ValueError, RuntimeError)):
        sim.Stream(device)


def test_nothing_is_there_before_configure():

    former = current.state.machine
    current.state.machine = None
    try:
        assert sim.device_count() == 0
        for use in (sim.now, sim.synchronize, sim.trace, sim.reset, sim.current_stream):
            with pytest.raises(RuntimeError, match="configure"):
                use()
        with pytest.raises(RuntimeError, match="configure"), sim.host_ops():
            pass
    finally:
        current.state.machine = former


@pytest.mark.parametrize(
    "use",
    [
        lambda x, other: x + 1,
        lambda x, other: x.cpu(),
        lambda x, other: x.item(),
        lambda x, other: x.to(other.device),
        lambda x, other: other.copy_(x),
        lambda x, other: x.copy_(other),
        lambda x, other: x.copy_(torch.ones(1)),
        lambda x, other: x + other,
        lambda x, other: x.view(-1),
        lambda x, other: torch.stack([x]),
    ],
)
def test_tensors_of_an_earlier_machine(use):
    (device,) = sim.configure(1)
    x = torch.ones(1, device=device)
    stream, event = sim.Stream(device), sim.Event()
    event.record()
    (device,) = sim.configure(1)
    other = torch.ones(1, device=device)
    with pytest.raises(RuntimeError, match=r"replaced.*(create|copy)"):
        use(x, other)
    for wait in (stream.synchronize, stream.query, stream.__enter__, event.synchronize):
        with pytest.raises(RuntimeError, match="replaced"):
            wait()
    assert "replaced" in repr(x)
    assert other.item() == 1


def test_values_where_there_are_none():
    (device,) = sim.configure(1, numerics=False)
    x = torch.rand(3, 3, device=device)
    for use in (
        lambda: x.sum().item(),
        lambda: bool(x[0, 0]),
        lambda: x.nonzero(),
        lambda: x[x > 0],
        lambda: x.masked_select(x > 0),
        lambda: x.unique(),
        lambda: torch.equal(x, x),
    ):
        with pytest.raises(RuntimeError, match=r"shapes only.*numerics=True"):
            use()
    assert "..." in repr(x)
    assert "(3, 3)" in repr(x)
    assert x.cpu().isnan().all()
    assert x.to("cpu", non_blocking=True).isnan().all()
    buffer = sim.empty_pinned(3, 3)
    buffer.copy_(x, non_blocking=True)
    assert buffer.isnan().all()
    for wrong in (
        lambda: x + torch.ones(2, device=device),
        lambda: x @ torch.ones(4, device=device),
    ):
        for _ in range(2):  # also when the shapes have been seen before
            with pytest.raises(RuntimeError):
                wrong()


def test_what_is_not_supported_says_so():
    (device,) = sim.configure(1)
    x = torch.ones(3, device=device)
    for use, error, text in (
        (lambda: x.to_sparse(), NotImplementedError, "sparse"),
        (lambda: x.storage(), NotImplementedError, "storage"),
        (lambda: x.__dlpack__(), BufferError, "cpu"),
        (
            lambda: torch.nn.DataParallel(torch.nn.Linear(3, 3).to(device)),
            NotImplementedError,
            "DataParallel.*split the batch",
        ),
        (lambda: x.pin_memory(), RuntimeError, "cannot pin"),
        (lambda: sim.Event(interprocess=True), NotImplementedError, "processes"),
        (
            lambda: torch.rand(2, device=device, generator=torch.Generator()),
            RuntimeError,
            "Expected a 'sim' device type for generator but found 'cpu'",
        ),
    ):
        with pytest.raises(error, match=text):
            use()


def test_errors_of_the_backward_pass_name_the_type_of_the_tensor():
    (device,) = sim.configure(1)
    x = torch.ones(2, device=device, dtype=torch.float64, requires_grad=True)
    for backward in (torch.Tensor.backward, lambda loss: torch.autograd.grad(loss, x)):
        y = x.exp()
        y.mul_(2)
        assert y.type() == "torch.sim.DoubleTensor"
        with pytest.raises(RuntimeError, match=r"operation: \[torch\.sim\.DoubleTensor \[2\]\]"):
            backward(y.sum())
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x.add_(1)


def test_shapes_that_do_not_fit_change_nothing():
    d0, d1 = sim.configure(2)
    x = torch.zeros(2, 3, device=d0)
    sim.reset()
    for source in (torch.ones(4), torch.ones(4, device=d1), torch.ones(2, 2, 3, device=d1)):
        sim.synchronize()
        moment = sim.now()
        with pytest.raises(RuntimeError):
            x.copy_(source)
        assert sim.now() == moment
    assert x.sum().item() == 0


def test_errors_of_an_operation_cost_no_time():
    (device,) = sim.configure(1)
    x = torch.ones(2, 3, device=device)
    sim.reset()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        x @ x
    assert sim.now() == 0
    assert sim.trace() == []


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
def test_data_parallel_and_pinned_loaders_elsewhere_are_left_alone():
    sim.configure(1)
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    net = torch.nn.DataParallel(torch.nn.Linear(3, 3).to(device))
    assert net(torch.ones(2, 3, device=device)).shape == (2, 3)
    loader = torch.utils.data.DataLoader(torch.arange(4), batch_size=2, pin_memory=True)
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("geqrf", lambda x: torch.geqrf(x)),
        ("histogram", lambda x: torch.histogram(x, 3)),
        (
            "multi_margin_loss_backward",
            lambda x: torch.nn.functional.multi_margin_loss(
                x.requires_grad_(), torch.zeros(3, dtype=torch.long, device=x.device)
            ).backward(),
        ),
        (
            "multilabel_margin_loss_backward",
            lambda x: torch.nn.functional.multilabel_margin_loss(
                x.requires_grad_(), torch.zeros(3, 3, dtype=torch.long, device=x.device)
            ).backward(),
        ),
        (
            "fractional_max_pool3d_backward",
            lambda x: (
                torch.nn.functional.fractional_max_pool3d(
                    x.expand(1, 1, 3, 3, 3).requires_grad_(), 2, output_size=1
                )
                .sum()
                .backward()
            ),
        ),
    ],
)
def test_an_operation_without_a_rule_for_shapes_is_refused_by_name(name, run):
    (device,) = sim.configure(1, numerics=False)
    with pytest.raises(NotImplementedError, match=f"shapes of {name}, .*numerics=True"):
        run(torch.rand(3, 3, device=device))


@pytest.mark.parametrize("kind", ["fused", "foreach"])
@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adagrad, torch.optim.Adam])
def test_optimisers_cost_the_same_without_values(make, kind):
    seen = []
    for numerics in (True, False):
        (device,) = sim.configure(1, numerics=numerics)
        net = torch.nn.Linear(4, 4).to(device)
        net(torch.ones(2, 4, device=device)).sum().backward()
        make(net.parameters(), 0.1, **{kind: True}).step()
        sim.synchronize()
        seen.append((sim.now(), sim.trace()))
    assert seen[0] == seen[1]
