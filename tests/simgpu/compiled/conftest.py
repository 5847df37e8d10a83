"""Compile on simulated GPUs as ``simgpu run`` does."""

import pytest

from simgpu.backend.pytorch.replacements import Replacements
from simgpu.run.cuda import tracing


@pytest.fixture
def compiler():
    """Let `torch.compile` make regions; what it has compiled."""
    compiled = tracing.Compiled(warn=lambda note: None, eager=False)
    with Replacements() as scoped:
        scoped.add(tracing.replacements(compiled))
        yield compiled
