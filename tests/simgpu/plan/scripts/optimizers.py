"""The optimizers that scripts choose from."""

from functools import partial

from eight_bits import AdamW8bit
from torch.optim import SGD, Adam, AdamW

OPTIMIZERS = {
    "adamw": partial(AdamW, lr=1e-4, fused=True),
    "adam": partial(Adam, lr=1e-4, fused=True),
    "sgd": partial(SGD, lr=1e-2, foreach=True),
    "sgd-momentum": partial(SGD, lr=1e-2, momentum=0.9, foreach=True),
    "adamw-8bit": AdamW8bit,
}
