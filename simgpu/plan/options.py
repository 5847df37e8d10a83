"""The options of ``simgpu plan``; `simgpu.plan.request` makes a request of them."""

import argparse

from simgpu.command_line import Parser
from simgpu.network.options import add_machine
from simgpu.plan.plans import PER_STAGE, RECOMPUTE, SCHEDULES, SHARDS
from simgpu.plan.presets import PRESETS
from simgpu.plan.step.recipe.names import DTYPES, OPTIMIZERS, WEIGHTS


def make_parser(plans=True):
    """Return the parser; options of a request that are not given are not in what it returns.

    Those about money and searches are what `plans` adds.
    """
    parser = Parser(
        prog="simgpu plan",
        description="Simulate a training step of a model on many GPUs, and say how long it takes, "
        "what memory it needs, and what limits it.",
        epilog=f"Presets: {', '.join(PRESETS)}. A .json file has the fields of a Hugging Face "
        "configuration (hidden_size, num_attention_heads, num_hidden_layers, "
        "max_position_embeddings, vocab_size, ...). A .py file defines model(), which returns a "
        "torch.nn.Module (it is called on the device meta), and batch(size), which returns the "
        "tensor, or the tuple of tensors, of a micro-batch of that size; the loss is the output, "
        "or its .loss, summed. It is trained as it is, data parallel: with --shard 0 gradients are "
        "summed over ranks once a step, with --shard 3 in each micro-batch; --search "
        "chooses its micro-batch, recomputation (none or full) and --shard (0 or 3) alone.",
        argument_default=argparse.SUPPRESS,
    )  # fmt: skip
    parser.set_defaults(
        json=False, search=False, top=5, why=None, export=None, jobs=None, cheapest=False
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="a preset, a .json file, or a .py file (see below)")
    add("--json", action="store_true", help="print all numbers as JSON")
    hardware = parser.add_argument_group(
        "hardware", "Without --network, nodes are joined as they usually are with that link."
    )
    add_machine(hardware)
    add = hardware.add_argument
    add("--gpus", type=int, metavar="N", help="in all (default: 8)")
    add("--gpus-per-node", type=int, metavar="K", help="default: a full board, at most --gpus")
    add = parser.add_argument_group("how the work is split").add_argument
    for name, what in (
        ("tp", "tensor parallel ranks, with sequence parallelism"),
        ("pp", "pipeline parallel ranks"),
        ("cp", "context parallel ranks"),
        ("ep", "expert parallel ranks"),
    ):  # fmt: skip
        add(f"--{name}", type=int, metavar="N", help=f"{what} (default: 1)")
    add(
        "--etp", type=int, metavar="N",
        help="ranks that split each expert; with 1, expert parallel ranks are tensor parallel ones "
        "of the other layers, too (default: --tp)",
    )  # fmt: skip
    add(
        "--imbalance", type=float, metavar="F",
        help="tokens of the busiest of the expert parallel ranks over their mean (default: 1)",
    )  # fmt: skip
    add(
        "--shard", type=int, choices=range(len(SHARDS)), metavar="0..3",
        help="ZeRO's stage: 1 optimiser's state, 2 and gradients, 3 and parameters (default: 3 "
        "without --tp, --pp and --ep, else 1)",
    )  # fmt: skip
    add("--schedule", choices=SCHEDULES, help="of the pipeline (default: 1f1b)")
    add("--chunks", type=int, metavar="V", help="stages a rank, interleaved (default: 2)")
    add = parser.add_argument_group("what is computed").add_argument
    add("--micro-batch", type=int, metavar="N", help="sequences at once (default: 1)")
    add(
        "--global-batch", "--batch", type=int, metavar="N",
        help=f"sequences a step (default: one micro-batch a replica, {PER_STAGE} for each stage)",
    )  # fmt: skip
    add("--sequence", type=int, metavar="N", help="tokens a sequence (default: the model's)")
    add(
        "--recompute", metavar="{" + ",".join((*RECOMPUTE, "every:N", "first:N")) + "}",
        help="full: all of a layer; selective, as in torchtitan (option op): all but attention and "
        "every second product; core_attn, what Megatron calls selective: attention alone, fused "
        "or not; every:N: all of every Nth layer of a stage, as torchtitan's selective with a "
        "number; first:N: all of its first N layers, as Megatron's block (default: none)",
    )  # fmt: skip
    add(
        "--dtype", choices=DTYPES,
        help="of products; with float32 and tf32 all numbers have 32 bits, and with tf32 products "
        "are of rounded ones (default: bfloat16 if the GPU has it, else float16)",
    )  # fmt: skip
    add(
        "--optimizer", choices=OPTIMIZERS,
        help="adam and adamw as one kernel (fused), sgd and sgd-momentum as kernels for lists "
        "(foreach), adamw-8bit with moments of 8 bits, a kernel a parameter; adafactor, and muon "
        "for matrices of hidden layers (adamw for the rest), as PyTorch has them, of whole "
        "parameters: with --shard 0 and --tp 1 (default: adamw)",
    )  # fmt: skip
    add(
        "--weights", choices=WEIGHTS,
        help="of what the optimizer changes. float32: copies in 32 bits, of which products take "
        "roundings; bfloat16: no copies, and gradients and its states in bfloat16, too, as "
        "torchtune's recipes have them (default: float32)",
    )  # fmt: skip
    add(
        "--loss", metavar="LOSS",
        help="eager; compiled; in-place: probabilities take the place of the logits, as in "
        "Megatron; chunked[:N]: logits in N chunks of tokens (default: 8), as in torchtune; fused: "
        "logits are never kept, and gradients are computed in the forward pass, as in Liger "
        "(default: eager)",
    )  # fmt: skip
    add("--compiled", action="store_true", help="chains of pointwise operations are one kernel")
    if plans:
        _add_money(parser)
        _add_search(parser)
    return parser


def _add_money(parser):
    add = parser.add_argument_group(
        "money", "A file of prices is your own: help('simgpu.plan.prices') shows one."
    ).add_argument
    add("--prices", metavar="FILE", help="a .json file: dollars for a GPU and an hour, by GPU")
    add("--tokens", metavar="15T", help="of the whole run (of a .py file: samples)")
    add("--within", metavar="30d", help="when the run must have ended: hours, days or weeks")
    add(
        "--cheapest", action="store_true",
        help="search the GPUs of the file, full boards of up to --gpus (default: 64) in all, for "
        "the cheapest run that ends in time; needs the three above and --global-batch",
    )  # fmt: skip


def _add_search(parser):
    add = parser.add_argument_group(
        "search",
        "Options above that say how the work is split, micro-batch and recomputation stay as they "
        "are if they are given; the others are searched: of a .py file micro-batch, recomputation "
        "and ZeRO stage 0 or 3, data parallel only. Batch (default: one sequence a GPU), "
        "length of sequences and numbers are never changed.",
    ).add_argument
    add("--search", action="store_true", help="find the fastest plan that fits, and print the best")
    add("--top", type=int, metavar="N", help="plans in the table (default: 5)")
    add(
        "--why", metavar="PLAN",
        help="why a plan is not the best, such as tp8,pp4,mb2,recompute=full (implies --search)",
    )  # fmt: skip
    add(
        "--export", choices=("torchtitan", "megatron"),
        help="print the flags of the best plan for that program (implies --search)",
    )  # fmt: skip
    add(
        "--jobs", type=int, metavar="N",
        help="processes that search (default: one; for 64 GPUs or more, one a core, at most 8)",
    )  # fmt: skip
