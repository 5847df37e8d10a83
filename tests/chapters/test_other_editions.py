"""The page for readers of other editions: each row's call of today runs, and none is missing."""

import ast
import json
import re

import matplotlib.pyplot as plt
import nbformat
import pytest
import torch
import torch.distributed as dist
from support.each import each
from support.mxnet_values import VALUES
from support.mxnet_values.today import COMPARED, labels, linear, pattern
from support.paths import CHAPTERS
from torch import nn

import d2lmini
import simgpu as sim

PAGE = nbformat.read(CHAPTERS / "other-editions.ipynb", as_version=4)
CODE = "\n".join(cell.source for cell in PAGE.cells if cell.cell_type == "code")
OLD_CALLS = re.findall(
    r"\S+",
    """
npx.set_np npx.gpu mx.gpu mx.cpu npx.num_gpus d2l.try_gpu d2l.try_all_gpus as_in_ctx as_in_context
copyto x.ctx x.context asnumpy asscalar nd.random_normal nd.random.normal np.random.normal
nd.random.uniform np.random.uniform mx.random.seed npx.random.seed nd.dot np.dot nd.relu npx.relu
npx.activation nd.Convolution npx.convolution nd.Pooling npx.pooling x.flatten x.reshape nd.norm
npx.waitall nd.waitall wait_to_read d2l.Benchmark d2l.Timer timer.stop timer.avg timer.sum
gluon.loss.SoftmaxCrossEntropyLoss gluon.loss.L2Loss attach_grad autograd.record loss.backward
autograd.pause autograd.train_mode autograd.predict_mode nn.Dense nn.Conv2D nn.BatchNorm
nn.GlobalAvgPool2D net.add net.initialize init.Normal init.Xavier force_reinit net.collect_params
net.weight.data net.weight.grad list_ctx gluon.Trainer trainer.step trainer.set_learning_rate
trainer.allreduce_grads d2l.sgd kvstore kv.push kv.pull gluon.utils.split_and_load d2l.split_batch
d2l.get_params lenet d2l.allreduce d2l.train_batch d2l.train_batch_ch13 d2l.train_ch13
nn.DataParallel d2l.load_data_fashion_mnist gluon.data.DataLoader gluon.data.vision.FashionMNIST
d2l.Animator animator.add d2l.Accumulator metric.add d2l.accuracy d2l.evaluate_accuracy_gpu
d2l.evaluate_accuracy_gpus d2l.train_ch6 d2l.Residual d2l.resnet18
""",
)
# What is compared with MXNet in the rows that say "the same", by the call of today.
SAME = {
    "try_gpu(i)": ["d2l.try_gpu(1000)", "d2l.try_all_gpus()"],
    "x.to(d)": ["as_in_context returns x itself"],
    "x.to(d, copy=True)": ["copyto returns x itself"],
    "loc + scale * torch.randn(shape, device=d)": ["nd.random_normal"],
    "torch.rand(shape, device=d)": ["nd.random.uniform"],
    "a @ b": ["nd.dot", "np.dot", "nd.dot of three axes"],
    "F.relu(x)": ["nd.relu", "npx.relu", "npx.activation relu"],
    "F.conv2d(image, filters, bias)": ["nd.Convolution", "npx.convolution"],
    "F.avg_pool2d(image, 2)": [
        *("nd.Pooling avg", "npx.pooling avg"),
        *("nd.Pooling without stride", "npx.pooling without stride"),
    ],
    "F.max_pool2d(image, 2)": ["nd.Pooling max", "nd.Pooling without type"],
    "torch.linalg.vector_norm(x)": ["nd.norm"],
    'F.cross_entropy(y_hat, y, reduction="none")': ["SoftmaxCrossEntropyLoss"],
    'F.mse_loss(y_hat, y, reduction="none").mean(1) / 2': ["L2Loss"],
    "loss.sum().backward()": ["its gradient", "gradient, write"],
    "nothing: it is what PyTorch does": ["gradient, add"],
    "nn.BatchNorm2d(20)": ["BatchNorm", "BatchNorm's means"],
    "nn.init.normal_(net.weight, std=0.01)": ["init.Normal()", "init.Normal(sigma=0.1)"],
    "nn.init.xavier_uniform_(net.weight)": ["init.Xavier()"],
    "F.cross_entropy(net(X), y).backward()": [
        *("weights, trainer.step(8)", "biases, trainer.step(8)"),
        *("weights, trainer.step(8) on one device", "biases, trainer.step(8) on one device"),
        *("weights, trainer.step(7)", "biases, trainer.step(7)"),
    ],
    "torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)": [
        *("weights, momentum", "biases, momentum"),
    ],
    "torch.optim.SGD(net.parameters(), lr=lr, weight_decay=0.5)": ["weights, wd", "biases, wd"],
    "split_batch(X, y, devices)": [
        *("split_and_load of 8", "split_and_load of 7, even_split=False", "d2l.split_batch"),
    ],
    "allreduce(data)": ["kv.push and kv.pull"],
    "train_batch(X, y, device_params, devices, lr)": ["losses from scratch", "norms from scratch"],
    "accuracy(y_hat, y)": ["d2l.accuracy"],
    "evaluate_accuracy(net, test_iter, device)": ["d2l.evaluate_accuracy_gpus"],
}


def spans(cell):
    return re.findall(r"`([^`]+)`", cell)


def rows():
    """Return (old, today, what is different, the section's code) of each row."""
    found, section = [], []
    for cell in PAGE.cells:
        if cell.cell_type == "code":
            section.append(cell.source)
            continue
        if re.search(r"^## ", cell.source, re.MULTILINE):
            section = []
        table = re.findall(r"^\| (.*) \| (.*) \|(.*)\|$", cell.source, re.MULTILINE)
        found += [(*map(str.strip, row), section) for row in table if row[0] != "old"]
    return found


ROWS = rows()


def first_of_today(today):
    return (spans(today) or [today])[0]


def names(devices):
    """Return what the calls of today name, with tensors on the first device."""
    d, other, found = devices[0], devices[-1], {}
    net, b = linear().to(d), torch.ones(3, 2, device=d)
    exec(next(c.source for c in PAGE.cells if c.source.startswith("# Imports")), found)
    x = torch.ones(2, 3, device=d)
    found |= {"d": d, "d0": d, "d1": other, "device": d, "devices": devices, "i": 0, "x": x}
    found |= {"y": labels(8).to(d), "y_hat": pattern(8, 3).to(d), "X": pattern(8, 4).to(d)}
    found |= {"image": pattern(1, 1, 4, 4).to(d), "filters": pattern(2, 1, 3, 3).to(d)}
    found |= {"bias": pattern(2).to(d), "shape": (2, 3), "loc": 0.5, "scale": 0.01, "a": x, "b": b}
    found |= {"w": torch.ones(3, device=d), "net": net, "lr": 0.1, "batch_size": 8}
    found |= {"optimizer": torch.optim.SGD(net.parameters(), lr=0.1), "loss": half_squares(d)}
    found |= {"params": list(net.parameters()), "grad": torch.ones(3, device=d)}
    found |= {"layer": nn.Linear(4, 3), "other": nn.ReLU(), "num_classes": 10, "resize": None}
    found |= {"nets": [linear().to(device) for device in devices], "names": ["mean loss", "right"]}
    found |= {"totals": torch.zeros(2, device=d), "y1": 0.5, "y2": 0.25}
    found |= {"data": [torch.ones(3, device=device) for device in devices]}
    return found


def half_squares(d):
    return (torch.ones(3, device=d).requires_grad_() ** 2) / 2


# What the calls of a few rows need before them.
PREPARED = {
    "y.copy_(x)": "y = torch.zeros(2, 3, device=d1)",
    "x.copy_(y)": "y = torch.zeros(2, 3, device=d1)",
    "x.item()": "x = x.sum()",
    "event.record()": "event = Event(d)",
    "timer.stop()": "timer = Timer(d0, d1); timer.start()",
    'F.mse_loss(y_hat, y, reduction="none").mean(1) / 2': "y = torch.zeros_like(y_hat)",
    "w.grad.zero_()": "w.requires_grad_(); w.sum().backward()",
    "sgd(params, lr, batch_size)": "net(X).sum().backward()",
    "lenet(X, params)": "X = torch.rand(2, 1, 28, 28, device=d); params = get_params("
    "init_params(), d)",
    "get_params(params, device)": "params = init_params()",
    "train_batch(X, y, device_params, devices, lr)": "X = torch.rand(8, 1, 28, 28); "
    "device_params = [get_params(init_params(), d) for d in devices]",
    'Animator("epoch", legend=names)': "animator = Animator(legend=names); x = 1",
    "totals += torch.stack([a, b])": "a, b = x.sum(), x.sum()",
    "evaluate_accuracy(net, test_iter, device)": "test_iter = [(X, y)]",
    "optimizer.step()": "net(X).sum().backward()",
}


def execute(today, found):
    """Run the calls of a row, in their order."""
    exec(PREPARED.get(first_of_today(today), ""), found)
    for call in spans(today):
        exec(call, found)


def execute_in_a_process(today, rank):
    """Run them in one of two processes."""
    dist.init_process_group()
    device = torch.accelerator.current_accelerator()
    execute(today, names([device]))
    dist.destroy_process_group()
    return rank


@pytest.fixture
def small_data(monkeypatch):
    """Read no data: rows that load some get a few images."""
    batches = [(torch.zeros(2, 1, 28, 28), torch.zeros(2, dtype=int))]
    monkeypatch.setattr(d2lmini, "load_data_fashion_mnist", lambda *args: (batches, batches))


@each(OLD_CALLS)
def test_every_old_call_has_a_row(call):
    whole = rf"(?<!\w){re.escape(call)}(?!\w)"
    assert any(re.search(whole, span) for row in ROWS for span in spans(row[0]))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_each_rows_call_of_today_runs(row, small_data):
    today = row[1]
    if re.search(r"\bdist\.|DistributedDataParallel", today):
        assert sim.spawn(lambda rank: execute_in_a_process(today, rank), nprocs=2) == [0, 1]
        return
    assert spans(today) or today.startswith("nothing: ")
    execute(today, names(d2lmini.gpus(2, quiet=True)))
    plt.close("all")


def called(source):
    """Return the names of what a program calls, or reads as an attribute: `randn`, `device`."""
    nodes = list(ast.walk(ast.parse(source)))
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    attributes = [node.attr for node in nodes if isinstance(node, ast.Attribute)]
    return {*attributes, *(func.id for func in calls if isinstance(func, ast.Name))}


@each(ROWS, lambda row: row[0])
def test_the_cells_of_the_section_call_it(row):
    _, today, _, section = row
    there = called("\n".join(section))
    assert {name for span in spans(today) for name in called(span)} <= there


def test_what_is_said_to_be_the_same_is_compared():
    claimed = {first_of_today(row[1]) for row in ROWS if "the same" in row[2]}
    assert claimed == set(SAME)
    assert {name for compared in SAME.values() for name in compared} <= set(COMPARED)


def rounded(value):
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return round(value, 6) if isinstance(value, float) else value


def test_the_page_has_the_values_that_were_recorded():
    on_page = json.loads(re.search(r'^MXNET = json\.loads\("""(.*?)"""\)', CODE, re.M | re.S)[1])
    assert on_page == {name: rounded(VALUES[name]) for name in on_page}
    used = re.findall(r'same\([^"]*?"([^"]+)"\)|MXNET\["([^"]+)"\]', CODE)
    assert {one or other for one, other in used} == set(on_page)
