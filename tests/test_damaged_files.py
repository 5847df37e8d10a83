"""Files without a checksum, damaged: refused in a sentence that names them, or still of use.

Damage of those with one is always found: tests/data/test_files.py, tests/ddp/test_checkpoint.py.
"""

import math
import warnings
import xml.etree.ElementTree as ET

import pytest
from support.samples.damage import flips_and_cuts
from support.samples.profiler_traces import busy_gpu, write

from d2lmini import sim
from simgpu.hardware import gpu_file
from simgpu.timeline import Timeline


def check(path, read, use, count):
    """Damage a file in many ways; return how often it was refused.

    When it is not, `use` must take what was read.
    """
    content, refused = path.read_bytes(), 0
    use(read(path))
    for damaged in flips_and_cuts(content, count):
        path.write_bytes(damaged)
        try:
            found = read(path)
        except ValueError:
            refused += 1
        else:
            use(found)
    return refused


def use_timeline(timeline):
    assert timeline.spans
    assert all(math.isfinite(span.start) and span.duration >= 0 for span in timeline.spans)
    assert all(fraction >= 0 for fraction in timeline.busy().values())
    ET.fromstring(timeline.to_svg())


def read_timeline(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is strange about one that can be read
        return Timeline.from_chrome(path)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_a_damaged_trace(tmp_path, packed):
    path = write(tmp_path / "trace.json", busy_gpu(0)[:30], packed=packed)
    assert check(path, read_timeline, use_timeline, 150) > 150


def test_a_damaged_timeline(tmp_path):
    trace = write(tmp_path / "trace.json", busy_gpu(0)[:20])
    path = tmp_path / "ours.json"
    Timeline.from_chrome(trace).to_chrome(path)
    assert check(path, read_timeline, use_timeline, 150) > 150


def test_a_damaged_gpu(tmp_path):
    path = tmp_path / "t4.json"
    gpu_file.write(path, sim.GPUS["t4"], link="pcie3", copies={"latency": 1e-5})
    assert check(path, sim.find_gpu, lambda gpu: sim.configure(2, gpu=gpu), 150) > 150


@pytest.mark.parametrize("content", ["[" * 100_000, "[]", "null", "3", "\ud800", "{}", ""])
def test_a_gpu_that_is_none_is_refused(tmp_path, content):
    path = tmp_path / "t4.json"
    path.write_text(content, errors="surrogatepass")
    with pytest.raises(ValueError, match=r"t4\.json"):
        sim.find_gpu(path)
