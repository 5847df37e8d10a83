"""The book's own programs have no races, except for the mistakes that chapters make on purpose."""

import re
import warnings

import matplotlib
import nbformat
import pytest
import torch
from matplotlib import pyplot as plt
from support.paths import CHAPTERS
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from d2lmini import sim
from d2lmini.resnet import resnet18

ON_PURPOSE = re.compile("early|isnan")  # in a cell that reads before the copy has arrived
# Cells about races look for them by themselves.
OF_RACES = re.compile(r"check_races|has_race\(|waits=")


@pytest.fixture(autouse=True)
def _as_in_a_notebook(monkeypatch):
    monkeypatch.setenv("D2LMINI_GPUS", "sim")
    monkeypatch.chdir(CHAPTERS)
    matplotlib.use("agg")
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    plt.close("all")


def sources(name):
    notebook = nbformat.read(CHAPTERS / f"{name}.ipynb", as_version=4)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return [re.sub(r"^[%!].*$", "", source, flags=re.MULTILINE) for source in code]


def races(name):
    """Run a chapter's cells; return ``(cell, warning)`` for each race."""
    found, names = [], {}
    with sim.check_races(action="warn"):
        for source in filter(lambda source: not OF_RACES.search(source), sources(name)):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                exec(source, names)
            found += [(source, str(w.message)) for w in caught if "race: " in str(w.message)]
    return found


@pytest.mark.exhaustive
def test_the_first_chapter_does_not_race():
    assert races("devices") == []


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", ["simulator", "auto-parallelism"])
def test_chapters_about_streams_race_only_on_purpose(name):
    found = races(name)
    assert found
    for source, race in found:
        assert ON_PURPOSE.search(source), f"{race}\nin\n{source}"
        assert "on the host" in race
        assert "reads" in race


def data_parallel_step(devices, batch_size):
    """Train ResNet-18 for one step as `nn.DataParallel` does; the first device holds it."""
    with devices[0]:
        net = resnet18()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2)
    X = torch.empty(batch_size, 1, 28, 28)
    y = torch.zeros(batch_size, dtype=torch.int64, device=devices[0])
    state = dict(net.named_parameters()) | dict(net.named_buffers())
    shares = [x.to(d) for x, d in zip(X.tensor_split(len(devices)), devices, strict=True)]
    replicas = [{name: value.to(d) for name, value in state.items()} for d in devices]
    pairs = zip(replicas, shares, strict=True)
    outputs = [functional_call(net, replica, share) for replica, share in pairs]
    cross_entropy(torch.cat([output.to(devices[0]) for output in outputs]), y).backward()
    optimizer.step()


@pytest.mark.slow
def test_data_parallel_training_does_not_race():
    """The step that copies parameters, outputs and gradients between devices."""
    devices = sim.configure(2, numerics=False)
    with sim.check_races():
        data_parallel_step(devices, 8)
