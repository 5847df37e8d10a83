"""The optimizers that a plan can name, on a rank's own part of the parameters."""

from torch.distributed.tensor import DTensor

from simgpu.plan.step.recipe.elementwise import BLOCK, SGD, Adam, AdamW, AdamW8bit, Momentum
from simgpu.plan.step.recipe.matrices import Adafactor, Muon

OPTIMIZERS = {
    "adamw": AdamW, "adam": Adam, "sgd": SGD, "sgd-momentum": Momentum, "adamw-8bit": AdamW8bit,
    "adafactor": Adafactor, "muon": Muon,
}  # what `Program.optimizer` can name  # fmt: skip
# Numbers in the parameters' type, at least: Adafactor's are few, and Muon has AdamW's of tables.
STATES = {"adamw": 2, "adam": 2, "sgd": 0, "sgd-momentum": 1, "adafactor": 0, "muon": 1}


def state_bytes(name, weight_bytes):
    """Return the bytes that an optimizer keeps for each number of a parameter, at least."""
    return 2 * (1 + 4 / BLOCK) if name == "adamw-8bit" else STATES[name] * weight_bytes


def make_optimizer(name, parameters, hidden):
    """Return the optimizer of that name; `hidden` says which parameters are a hidden layer's."""
    return Muon(parameters, hidden) if name == "muon" else OPTIMIZERS[name](parameters)


def changing(name, parameters, hidden):
    """Return a function that changes parameters, sharded or not, by the optimizer of that name."""
    optimizer = make_optimizer(name, [_own(p) for p in parameters], hidden)

    def step():
        optimizer.step([None if p.grad is None else _own(p.grad) for p in parameters])

    return step


def _own(x):
    """Return a rank's own part of a tensor."""
    return x.to_local().detach() if isinstance(x, DTensor) else x.detach()
