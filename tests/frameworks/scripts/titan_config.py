"""torchtitan's debug model with a text and a tokenizer of our own, which need no download."""

import dataclasses

import torch
from datasets import Dataset
from torchtitan.components.tokenizer import BaseTokenizer
from torchtitan.hf_datasets import DatasetConfig
from torchtitan.hf_datasets.text_datasets import DATASETS, HuggingFaceTextDataLoader
from torchtitan.models.llama3.config_registry import llama3_debugmodel

if not hasattr(torch.distributed, "set_timeout"):  # torchtitan 0.3 needs a later PyTorch than 2.13
    torch.distributed.set_timeout = lambda timeout, group=None: None


class Letters(BaseTokenizer):
    """One token for each letter."""

    @dataclasses.dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        """Has no settings."""

    def __init__(self, config, **_):
        super().__init__()
        self.eos_id = 1

    def encode(self, text, add_bos=False, add_eos=False):
        return [0] * add_bos + [2 + ord(letter) % 254 for letter in text] + [1] * add_eos

    def decode(self, tokens):
        return "".join(chr(token - 2) for token in tokens if token > 1)

    def get_vocab_size(self):
        return 2048


def sentences(_):
    """Return a data set of sentences about numbers."""
    return Dataset.from_list(
        [{"text": f"{i} and {i + 1} make {2 * i + 1}, and {i} twice makes {2 * i}."}
         for i in range(2000)]
    )  # fmt: skip


DATASETS["sentences"] = DatasetConfig("", sentences, lambda sample: sample["text"])


def small():
    """Return the debug model's configuration for four short steps."""
    config = llama3_debugmodel()
    config.tokenizer = Letters.Config()
    config.dataloader = HuggingFaceTextDataLoader.Config(dataset="sentences")
    config.training.seq_len = 128
    config.training.local_batch_size = 2
    config.training.steps = 4
    config.debug.seed = 7
    return config
