"""Animator: curves stay readable, the figure shows once."""

import matplotlib.pyplot as plt
import pytest

from d2lmini import Animator, plotting


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_points_stay_readable():
    animator = Animator("epoch", "loss", legend=["train", "test"])
    animator.add(1, 0.9, None)
    animator.add(2, 0.5, 0.6)
    assert animator.x == [[1, 2], [2]]
    assert animator.y == [[0.9, 0.5], [0.6]]


def test_drawn_curves_are_the_points_and_axes_are_labelled():
    animator = Animator("epoch", "loss", legend=["train"], xlim=(0, 3), ylim=(0, 1))
    animator.add(1, 0.9)
    animator.add(2, 0.5)
    (line,) = animator.axes.lines
    assert line.get_xydata().tolist() == [[1, 0.9], [2, 0.5]]
    assert (animator.axes.get_xlabel(), animator.axes.get_ylabel()) == ("epoch", "loss")
    assert animator.axes.get_xlim() == (0, 3)
    assert [t.get_text() for t in animator.axes.get_legend().get_texts()] == ["train"]


def test_curves_differ_without_colour_too():
    animator = Animator()
    animator.add(1, 0.9, 0.8, 0.7)
    assert len({line.get_linestyle() for line in animator.axes.lines}) == 3


def test_whole_numbers_get_whole_ticks():
    animator = Animator("epoch")
    for epoch in (1, 2, 3, 4):
        animator.add(epoch, 0.5)
    assert all(tick == int(tick) for tick in animator.axes.get_xticks())


def test_more_values_than_names_are_an_error():
    with pytest.raises(ValueError, match="2 values, but the legend names 1"):
        Animator(legend=["one"]).add(1, 0.5, 0.5)


def test_in_jupyter_one_figure_is_shown_and_then_updated(monkeypatch):
    shown, updated = [], []

    class Handle:
        def update(self, fig):
            updated.append(fig)

    def display(fig, display_id):
        assert display_id
        shown.append(fig)
        return Handle()

    monkeypatch.setattr(plotting, "_in_jupyter", lambda: True)
    monkeypatch.setattr("IPython.display.display", display)
    animator = Animator()
    for x in range(3):
        animator.add(x, 0.5)
    assert shown == [animator.fig]
    assert len(updated) == 2
    assert animator.fig.number not in plt.get_fignums()  # or the backend would show it again


def test_elsewhere_one_open_figure_waits_for_show():
    animator = Animator()
    animator.add(1, 0.5)
    animator.add(2, 0.5)
    assert plt.get_fignums() == [animator.fig.number]
