"""Draw curves while a program runs.

Matplotlib is imported with the first figure, so that processes without figures start faster.
"""

import sys
from itertools import cycle

from simgpu.units import BLUE, GREEN, PURPLE, VERMILION

COLOURS = (BLUE, VERMILION, GREEN, PURPLE)
STYLES = ("-", "--", "-.", ":")  # for readers who see no colours


class Animator:
    """Curves that grow point by point.

    In Jupyter every `add` redraws the figure; elsewhere it is an ordinary open pyplot figure, to
    display with ``plt.show()`` or save with ``animator.fig.savefig``.

    Parameters
    ----------
    xlabel, ylabel : str, optional
        Axis labels, with units.
    legend : sequence of str, default ()
        Name of each curve.
    xlim, ylim : tuple of float, optional
        Ranges of the axes.

    Attributes
    ----------
    x, y : list of list of float
        The points of each curve: curve j has the points ``zip(x[j], y[j])``.
    fig : matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> animator = Animator("epoch", "accuracy", legend=["train", "test"])
    >>> animator.add(1, 0.5, 0.4)
    >>> animator.add(2, 0.75, None)
    >>> animator.x, animator.y
    ([[1, 2], [1]], [[0.5, 0.75], [0.4]])
    """

    def __init__(self, xlabel=None, ylabel=None, legend=(), xlim=None, ylim=None):
        import matplotlib.pyplot as plt

        self.x, self.y = [], []
        self.fig, self.axes = plt.subplots(figsize=(4.5, 3), layout="constrained")
        self._settings = {"xlabel": xlabel, "ylabel": ylabel, "xlim": xlim, "ylim": ylim}
        self._legend = tuple(legend)
        self._handle = None

    def add(self, x, *y):
        """Add the point ``(x, y[j])`` to curve j and redraw.

        Parameters
        ----------
        x : float
            The common x coordinate.
        *y : float or None
            One value per curve; None adds no point to that curve.

        Raises
        ------
        ValueError
            If a legend was given and there are more values than names.
        """
        if self._legend and len(y) > len(self._legend):
            raise ValueError(
                f"{len(y)} values, but the legend names {len(self._legend)} curves; "
                "give every curve a name"
            )
        while len(self.y) < len(y):
            self.x.append([])
            self.y.append([])
        for xs, ys, value in zip(self.x, self.y, y, strict=False):
            if value is not None:
                xs.append(x)
                ys.append(value)
        self._draw()

    def _draw(self):
        from matplotlib.ticker import MaxNLocator

        self.axes.clear()
        for xs, ys, colour, style in zip(self.x, self.y, cycle(COLOURS), cycle(STYLES)):
            self.axes.plot(xs, ys, style, color=colour, marker="o", markersize=3)
        self.axes.set(**{name: v for name, v in self._settings.items() if v is not None})
        if all(isinstance(x, int) for xs in self.x for x in xs):
            self.axes.xaxis.set_major_locator(MaxNLocator(integer=True))  # no epoch 1.5
        self.axes.grid(alpha=0.4)
        if self._legend:
            self.axes.legend(self.axes.lines, self._legend[: len(self.y)])
        if _in_jupyter():
            self._show()

    def _show(self):
        """Display the figure, or update the displayed one."""
        import matplotlib.pyplot as plt
        from IPython.display import display

        if self._handle is None:
            plt.close(self.fig)  # otherwise the inline backend shows it a second time
            self._handle = display(self.fig, display_id=True)
        else:
            self._handle.update(self.fig)


def _in_jupyter():
    """Return whether this runs in a Jupyter kernel, where a displayed figure can be updated."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")
