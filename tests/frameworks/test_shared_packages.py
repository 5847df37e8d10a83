"""The rule of what ranks share, on the packages that the frameworks bring."""

import importlib.util
from types import ModuleType

import pytest

from simgpu.ranks.process.modules.shared_modules import is_shared

OWN = [
    "accelerate", "safetensors", "transformers", "lightning", "deepspeed", "megatron.core",
    "torchtitan", "tyro", "torchmetrics",
]  # fmt: skip
SHARED = ["tokenizers", "datasets", "triton", "pyarrow", "torchvision"]


@pytest.mark.parametrize("name", OWN + SHARED)
def test_each_rank_has_its_own_copy_of_what_keeps_state(name):
    try:
        spec = importlib.util.find_spec(name)  # of a package in a package, it imports the outer one
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        pytest.skip(f"{name} is not installed: make test-frameworks")
    module = ModuleType(name)
    module.__spec__ = spec
    assert is_shared(name, module) is (name in SHARED)
