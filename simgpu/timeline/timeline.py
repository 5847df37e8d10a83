"""Timelines: what ran where, as a figure, as a table, and as a file for Chrome and Perfetto.

A timeline shows the spans of simulated GPUs (`simgpu.clock.trace`), or a `torch.profiler` run on
real ones, in the same way.
"""

import math
import tempfile
from collections import defaultdict
from pathlib import Path

from simgpu.timeline import chrome, svg
from simgpu.timeline.kinds import kind_of
from simgpu.timeline.lanes import is_simulated, lane_of, order
from simgpu.units import time_unit


class Busy(dict):
    """Busy fractions, ``{(device, engine): fraction}``; its repr is a table."""

    def __repr__(self):
        rows = [(device, engine, f"{value:.3f}") for (device, engine), value in self.items()]
        return _table(("device", "engine", "busy"), rows)


class Timeline:
    """Spans of a run within a window of time.

    Jupyter shows a timeline as a figure, with one lane for each engine of each simulated GPU, or
    for each kind of work of each stream of a real one (see `from_chrome`), the host's lanes first.
    Kinds of operations differ in colour and in hatching; hovering over a box shows name, times,
    work and achieved rate. Boxes too narrow to draw are merged; lanes for which there is no room
    are listed below the figure.

    Parameters
    ----------
    spans : iterable of `simgpu.clock.span.Span`
        For instance ``simgpu.clock.trace()``. Times in seconds.
    start, end : float, optional
        Window to show, in seconds; default: from the first start to the last end.
    models : dict, optional
        Models of the devices, ``{"cuda:0": "NVIDIA H100"}``.

    Attributes
    ----------
    spans : tuple of Span
        Spans that overlap the window, sorted by start.
    start, end : float
        The window, in seconds.
    models : dict
        Models of its devices, where known.
    simulated : bool
        Whether the spans come from simulated GPUs.

    Raises
    ------
    ValueError
        If there are no spans (in the window), one of them has a negative or undefined time, or
        the window is empty.

    Examples
    --------
    >>> from simgpu.clock.span import Span
    >>> timeline = Timeline([
    ...     Span("sim:0", "compute", 0, "mm", 0.0, 3e-3, flops=6 * 10**9),
    ...     Span("sim:0", "d2h", 0, "copy sim:0 -> cpu", 3e-3, 1e-3, bytes=10**7),
    ... ])
    >>> timeline
    Timeline of 2 spans, 4 ms (simulated)
    device  engine   busy   spans  most time in
    sim:0   compute  0.750      1  matrix product
    sim:0   d2h      0.250      1  copy to host
    >>> timeline.busy()[("sim:0", "compute")]
    0.75
    """

    def __init__(self, spans, start=None, end=None, models=None):
        spans = sorted(spans, key=lambda span: (span.start, span.end, span.device, span.engine))
        if not spans:
            raise ValueError(
                "there are no spans to show; run something on the devices first "
                "(simgpu.reset() and configure() empty the trace)"
            )
        for span in spans:
            if not (math.isfinite(span.start) and 0 <= span.duration < math.inf):
                raise ValueError(f"{span} has no valid time; starts and durations are seconds")
        first, last = spans[0].start, max(span.end for span in spans)
        self.start = first if start is None else float(start)
        self.end = last if end is None else float(end)
        if not self.start <= self.end or (start is not None and self.start == self.end):
            raise ValueError(f"the window from {start} s to {end} s is empty; give start < end")
        self.spans = tuple(s for s in spans if _touches(s, self.start, self.end))
        if not self.spans:
            raise ValueError(
                f"no span lies between {start} s and {end} s; the trace runs from {first:.9g} s "
                f"to {last:.9g} s"
            )
        devices = {span.device for span in self.spans}
        self.models = {d: model for d, model in (models or {}).items() if d in devices}
        self.simulated = any(is_simulated(device) for device in devices)

    @classmethod
    def from_chrome(cls, path):
        """Read a file of `to_chrome`, or of ``export_chrome_trace`` of a PyTorch profiler.

        A profile has these lanes:

        - ``("host", "cpu")``: operations, only the outermost; ``"launch"``: calls of the CUDA
          runtime or driver, or another vendor's; ``"sync"``: calls that wait for a device. These
          lanes are the main thread's; other threads have ``"cpu thread 1"`` and so on.
        - ``("cuda:0", "compute")``: kernels, and copies and fills within the device's memory, which
          run in order with the kernels of their stream and use the same memory bandwidth. This
          lane is that of the stream with the most such work; another stream has a lane of its
          own, ``"stream 20"``.
        - ``("cuda:0", "h2d")``, ``"d2h"``, ``"p2p"``: copies from the host, to the host, between
          devices; ``"copy"``: copies whose direction the trace does not state. Again the stream
          with the most of them has the bare name, another one is ``"d2h stream 20"``.
        - ``("cuda:0", "nccl")``: communication kernels, under the name of their library (``"comm"``
          if it is unknown). Their spans have the collective, its bytes, its group and its number
          of ranks, if the trace states them. Collectives that run on the host are under
          ``("host", "gloo")``.

        Spans of one stream do not overlap, except in CUDA graphs and for kernels that are launched
        to start early; these share a lane, on separate rows. Devices have PyTorch's names:
        ``cuda:0`` may also be AMD's, ``xpu:0`` is Intel's, ``privateuseone:0`` that of a backend
        outside PyTorch. AMD's tracer records a copy between devices as one within a device.
        PyTorch's profiler does not see Apple's GPUs.

        Parameters
        ----------
        path : str or path-like, or list of them
            The file, compressed by gzip or not. Several files are those of the ranks of one job:
            their clocks are aligned, as well as the clocks of their machines agree, and device
            names begin with the rank: ``("rank 3 cuda:3", "compute")``.

        Returns
        -------
        Timeline
            Starting at 0 if the file is a profiler's.

        Raises
        ------
        ValueError
            If a file is not such a trace, has no operations, or has invalid fields; or if the
            clocks of several files cannot be aligned, or their ranks are unknown or not distinct.

        Warns
        -----
        UserWarning
            If events are left out because the profiler did not record their start or end.
        """
        spans, models = chrome.read(path)
        return cls(spans, models=models)

    @classmethod
    def from_profiler(cls, prof):
        """Make a timeline from a finished `torch.profiler.profile`.

        Its lanes are those of `from_chrome`. Streams keep the profiler's numbers (there, 7 is
        CUDA's default stream). Such a trace has no FLOPs.

        Parameters
        ----------
        prof : torch.profiler.profile
            Its ``with`` block must have ended. PyTorch writes the trace of a profile only once: if
            it was exported before, use `from_chrome` on that file.

        Raises
        ------
        ValueError
            If `prof` is not a finished profile, was exported before, or has no operations.
        """
        if not hasattr(prof, "export_chrome_trace"):
            raise ValueError(f"{prof!r} is not a profile; give a finished torch.profiler.profile")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            try:
                prof.export_chrome_trace(str(path))
            except (RuntimeError, AssertionError, AttributeError) as error:
                raise ValueError(
                    f"the profile cannot be exported ({error or type(error).__name__}); leave its "
                    "`with` block first, and if it was exported before, use Timeline.from_chrome "
                    "on that file"
                ) from error
            spans, models = chrome.read(path, name="the profile")
        return cls(spans, models=models)

    def between(self, start, end):
        """Return the same timeline, zoomed to the window from `start` to `end` seconds."""
        return Timeline(self.spans, start, end, self.models)

    def last(self, seconds):
        """Return the same timeline, zoomed to its last `seconds`."""
        if not seconds > 0:
            raise ValueError(f"seconds is {seconds!r}; give a positive number of seconds")
        return self.between(max(self.start, self.end - seconds), self.end)

    def lanes(self):
        """Return the spans of each lane: ``{(device, engine): [Span, ...]}``, host first.

        On a simulated GPU each engine is a lane; for real ones see `from_chrome`.
        """
        lanes = defaultdict(list)
        for span in self.spans:
            lanes[span.device, lane_of(span)].append(span)
        return dict(sorted(lanes.items(), key=lambda lane: order(*lane)))

    def busy(self):
        """Return the share of the window in which each lane is busy.

        Returns
        -------
        Busy
            A dict ``{(device, engine): fraction}`` whose repr is a table. Overlapping spans count
            once.
        """
        length = self.end - self.start
        return Busy(
            (lane, self._covered(spans) / length if length else 0.0)
            for lane, spans in self.lanes().items()
        )

    def _covered(self, spans):
        """Return the seconds of the window that the spans, sorted by start, cover."""
        covered, reached = 0.0, self.start
        for span in spans:
            end = min(span.end, self.end)
            covered += max(0.0, end - max(span.start, reached))
            reached = max(reached, end)
        return covered

    def to_chrome(self, path):
        """Write the spans of the window for chrome://tracing or https://ui.perfetto.dev.

        Parameters
        ----------
        path : str or path-like
            File to write, usually ``*.json``.
        """
        chrome.write(self.spans, path, self.models)

    def to_svg(self, path=None):
        """Return the figure as one SVG document; write it to `path` if one is given.

        Returns
        -------
        str
            The document. It uses the system's sans-serif font and follows dark mode.
        """
        text = svg.document(self)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def _repr_html_(self):
        return svg.html(self)

    def __repr__(self):
        unit, scale = time_unit(self.end - self.start)
        length = f"{(self.end - self.start) * scale:.6g} {unit}"
        note = " (simulated)" if self.simulated else ""
        busy = self.busy()
        rows = [
            (*lane, f"{busy[lane]:.3f}", f"{len(spans):5d}", _longest_kind(spans))
            for lane, spans in self.lanes().items()
        ]
        title = f"Timeline of {len(self.spans)} spans, {length}{note}"
        table = _table(("device", "engine", "busy", "spans", "most time in"), rows)
        models = [f"{device}: {model}" for device, model in self.models.items()]
        return "\n".join([title, table, *models])


def _touches(span, start, end):
    if span.end == span.start:  # short durations can be lost in rounding
        return start <= span.start <= end
    return span.start < end and span.end > start


def _longest_kind(spans):
    seconds = defaultdict(float)
    for span in spans:
        seconds[kind_of(span)] += span.duration
    return max(sorted(seconds), key=seconds.get)


def _table(header, rows):
    """Return a plain-text table with left-aligned columns."""
    rows = [header, *rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
