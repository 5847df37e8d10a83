"""How the programs begin: their option, and the GPU of a rank."""

import argparse
import os
from contextlib import contextmanager

import torch
import torch.distributed as dist


def is_compiled():
    """Return whether the program is given ``--compile``, its only option."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--compile", action="store_true")
    return parser.parse_args().compile


def is_alone():
    """Return whether there is no other rank."""
    return int(os.environ.get("WORLD_SIZE", "1")) == 1


@contextmanager
def one_of_many():
    """Join the other ranks for a time; return the rank's GPU."""
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    yield device
    dist.destroy_process_group()
