"""A model in a JSON file: names of fields as in Hugging Face's configurations."""

import json
from dataclasses import fields, replace

from simgpu.nearest import unknown
from simgpu.plan.presets import PRESETS
from simgpu.plan.step.model import Model
from simgpu.plan.step.rules import PlanError

# Field of `Model`: names that files use for it.
NAMES = {
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers"),
    "seq": ("max_position_embeddings", "n_positions", "max_seq_len"),
    "vocabulary": ("vocab_size",),
    "kv_heads": ("num_key_value_heads",),
    "inner": ("intermediate_size", "n_inner"),
    "tied": ("tie_word_embeddings",),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts"),
    "active": ("num_experts_per_tok",),
    "shared": ("shared_expert_intermediate_size",),
    "head": ("head_dim",),
    "gated": (), "biases": (), "dropout": (),
}  # fmt: skip
NEEDED = ("hidden", "heads", "layers", "seq", "vocabulary")
GPT = ("gpt2", "gpt_neox", "opt", "mpt", "bloom")  # model types without gates
# Fields of configurations that other layers are needed for.
UNKNOWN = {
    "q_lora_rank": "latent attention", "kv_lora_rank": "latent attention",
    "first_k_dense_replace": "some layers without experts",
    "mlp_only_layers": "some layers without experts",
}  # fmt: skip


def find_model(name) -> Model:
    """Return the model of a preset's name, or of a file that ends in ``.json``.

    Raises
    ------
    PlanError
        If there is none; the message says which there are, or what the file lacks.
    """
    if name.lower() in PRESETS:
        return replace(PRESETS[name.lower()], name=name)
    if not name.endswith(".json"):
        others = (
            ", a .json file with the model's sizes, or a .py file with a function model() that "
            "makes a torch.nn.Module"
        )
        raise PlanError(unknown("model", name, PRESETS, others))
    try:
        with open(name, encoding="utf-8") as file:
            return read(json.load(file), name)
    except (OSError, json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PlanError(f"{name} cannot be read: {error}") from None


def read(config, name) -> Model:
    """Return the `Model` that a configuration, a dict, describes; `name` is for messages."""
    if not isinstance(config, dict):
        raise PlanError(f"{name} holds no object; give one such as {{{_example()}}}")
    sizes = {}
    for key, others in NAMES.items():
        value = next((config[n] for n in (key, *others) if config.get(n) is not None), None)
        if value is not None:
            sizes[key] = value
    missing = [key for key in NEEDED if key not in sizes]
    if missing:
        words = (" or ".join((key, *NAMES[key])) for key in missing)
        raise PlanError(f"{name} lacks {'; '.join(words)}; add it")
    unknown = next((key for key in UNKNOWN if config.get(key)), None)
    if unknown:
        raise PlanError(
            f"{name} has {unknown}: {UNKNOWN[unknown]} cannot be simulated from sizes alone; "
            "describe the model as a .py file with a function model()"
        )
    if sizes.get("experts") and config.get("moe_intermediate_size"):
        sizes["inner"] = config["moe_intermediate_size"]
        if config.get("n_shared_experts"):
            sizes["shared"] = config["n_shared_experts"] * sizes["inner"]
    _check(sizes, name)
    _check_heads(sizes, name)
    _check_experts(sizes, name)
    if "model_type" in config or "hidden_act" in config:
        sizes.setdefault("gated", config.get("model_type") not in GPT)
        sizes.setdefault("tied", not sizes["gated"])
        sizes.setdefault("biases", not sizes["gated"] and config.get("model_type") != "mpt")
    return Model(**sizes, name=name)


def _check(sizes, name):
    flags = {f.name for f in fields(Model) if f.type is bool}
    for key, value in sizes.items():
        wanted = bool if key in flags else int
        least = key not in OPTIONAL
        if type(value) is not wanted or (wanted is int and not least <= value <= MOST):
            word = "true or false" if wanted is bool else f"a positive integer up to {MOST:,}"
            raise PlanError(f"{name}: {key} is {str(repr(value))[:40]}; give {word}")


MOST = 10**8  # of any size: products of several must stay numbers that PyTorch can count
OPTIONAL = ("experts", "active", "shared")


def _check_heads(sizes, name):
    hidden, heads = sizes["hidden"], sizes["heads"]
    if not sizes.get("head") and hidden % heads:
        raise PlanError(
            f"{name}: {heads} heads do not divide the hidden size {hidden}; change one of them, or "
            "give the size of a head (head_dim)"
        )
    if sizes.get("head", 0) * heads == hidden:
        del sizes["head"]


def _check_experts(sizes, name):
    if bool(sizes.get("experts")) != bool(sizes.get("active")):
        raise PlanError(f"{name}: give both experts and active (num_experts_per_tok), or neither")
    if sizes.get("active", 0) > sizes.get("experts", 0):
        raise PlanError(
            f"{name}: {sizes['active']} of {sizes['experts']} experts cannot work on a token; "
            "lower active"
        )


def _example():
    return ", ".join(f'"{NAMES[key][0]}": 1024' for key in NEEDED)
