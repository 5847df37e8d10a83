"""The book's own programs have no races, except for the mistakes that chapters make on purpose."""

import re
import warnings

import matplotlib
import nbformat
import pytest
import torch
from matplotlib import pyplot as plt
from support.paths import CHAPTERS

from d2lmini import sim
from d2lmini.pages.multiple_gpus_concise import data_parallel_step

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


@pytest.mark.slow
def test_data_parallel_training_does_not_race():
    """The step that copies parameters, outputs and gradients between devices."""
    devices = sim.configure(2, numerics=False)
    with sim.check_races():
        data_parallel_step(devices, 8)()
