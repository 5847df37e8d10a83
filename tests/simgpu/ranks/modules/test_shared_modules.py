"""The rule of what all ranks share."""

import importlib
import sys

import pytest
from support.paths import TESTS

from simgpu.ranks.process.modules import shared_modules
from simgpu.ranks.process.modules.shared_modules import callers_own, is_shared


@pytest.mark.parametrize(
    ("name", "shared"),
    [
        *[(name, True) for name in ("json", "torch.nn", "numpy.random", "simgpu", "_socket")],
        *[("support.paths", False), ("keeps_state", False)],
    ],
)
def test_what_is_shared(name, shared, monkeypatch):
    monkeypatch.syspath_prepend(TESTS / "support" / "programs" / "isolation")
    module = importlib.import_module(name)
    assert is_shared(name, module) is shared
    assert (callers_own({name: module}) == []) is shared


INSTALLED = {  # files, and requirements
    "plain": (["plain/__init__.py", "plain_more.py"], ["fast"]),
    "Fast-er": (["fast/__init__.py", "_fast.cpython-311-x86_64-linux-gnu.so"], ["under.neath>=2"]),
    "under_neath": (["under/__init__.py"], ["plain; extra == 'all'", "trainer"]),
    "trainer": (["trainer/__init__.py", "trainer/help.abi3.so"], ["torch>=2.0"]),
    "kernels": (["kernels/__init__.py", "kernels/_C.so"], ["torch", "numpy"]),
    "datasets": (["datasets/__init__.py"], []),
}


def test_installed_packages_with_parts_in_c_are_shared(tmp_path, monkeypatch):
    for name, (files, needs) in INSTALLED.items():
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "RECORD").write_text("".join(f"{file},sha256=x,1\n" for file in files))
        lines = [f"Name: {name}", *(f"Requires-Dist: {need}" for need in needs)]
        (folder / "METADATA").write_text("\n".join(lines) + "\n\nRequires-Dist: plain\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    found = shared_modules._shared_packages.__wrapped__()
    assert found == {"fast", "_fast", "under", "kernels", "datasets"}
