"""Megatron Core: a GPT split by tensor and pipeline parallelism, with its schedule and optimizer.

Weights are drawn from the name of each parameter and then split, so that every split starts from
the same model.
"""

import argparse
import functools
import os
import re
import zlib

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.num_microbatches_calculator import init_num_microbatches_calculator
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer import TransformerConfig

VOCABULARY, LENGTH, MICRO_BATCH, NUM_MICRO_BATCHES, LAYERS = 64, 16, 2, 4, 4


def build(tp, pp):
    config = TransformerConfig(
        num_layers=LAYERS, hidden_size=32, num_attention_heads=4, hidden_dropout=0.0,
        attention_dropout=0.0, pipeline_dtype=torch.float32, tensor_model_parallel_size=tp,
        pipeline_model_parallel_size=pp,
    )  # fmt: skip
    model = GPTModel(
        config, get_gpt_layer_local_spec(), VOCABULARY, LENGTH,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=False,
    )  # fmt: skip
    draw_weights(model, parallel_state.get_pipeline_model_parallel_rank() * LAYERS // pp)
    return config, model.cuda()


def draw_weights(model, first_layer):
    """Give each parameter its part of a tensor that depends on the parameter's name alone."""
    tp, rank = (
        parallel_state.get_tensor_model_parallel_world_size(),
        parallel_state.get_tensor_model_parallel_rank(),
    )
    for name, parameter in model.named_parameters():
        if "norm" in name:
            continue
        name = re.sub(r"layers\.(\d+)", lambda m: f"layers.{int(m[1]) + first_layer}", name)
        shape, dim = list(parameter.shape), getattr(parameter, "partition_dim", -1)
        if dim >= 0:
            shape[dim] *= tp
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        whole = torch.randn(shape, generator=generator) * 0.02
        part = whole.chunk(tp, dim)[rank] if dim >= 0 else whole
        parameter.data.copy_(part)


def draw_batches(steps, data_rank, data_size):
    """Yield the micro-batches of this rank."""
    generator = torch.Generator().manual_seed(1)
    mask = torch.ones(LENGTH, LENGTH, device="cuda").triu(1).bool()[None, None]
    for _ in range(steps * NUM_MICRO_BATCHES):
        shape = data_size, MICRO_BATCH, LENGTH + 1
        tokens = torch.randint(VOCABULARY, shape, generator=generator)
        own = tokens[data_rank].cuda(non_blocking=True)
        yield {
            "input_ids": own[:, :-1],
            "labels": own[:, 1:],
            "position_ids": torch.arange(LENGTH, device="cuda").expand(MICRO_BATCH, -1),
            "attention_mask": mask,
        }


def forward_step(batches, model):
    losses = model(**next(batches))
    return losses, lambda output: ((mean := output.float().mean()), {"loss": mean.detach().clone()})


def main(tp, pp, distributed_optimizer, steps):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    parallel_state.initialize_model_parallel(tp, pp)
    model_parallel_cuda_manual_seed(1234)
    data_rank = parallel_state.get_data_parallel_rank()
    data_size = parallel_state.get_data_parallel_world_size()
    init_num_microbatches_calculator(
        dist.get_rank(), None, NUM_MICRO_BATCHES * MICRO_BATCH * data_size, MICRO_BATCH, data_size
    )
    config, model = build(tp, pp)
    ddp = DistributedDataParallelConfig(
        overlap_grad_reduce=True, use_distributed_optimizer=distributed_optimizer
    )
    model = DistributedDataParallel(config, ddp, model)
    optimizer = get_megatron_optimizer(
        OptimizerConfig(
            optimizer="adam", lr=1e-2, clip_grad=1.0,
            use_distributed_optimizer=distributed_optimizer,
        ),
        [model],
    )  # fmt: skip
    config.finalize_model_grads_func = finalize_model_grads
    config.grad_scale_func = optimizer.scale_loss
    config.no_sync_func = model.no_sync
    batches = draw_batches(steps, data_rank, data_size)
    train_step = functools.partial(
        get_forward_backward_func(), forward_step_func=forward_step, data_iterator=batches,
        model=model, num_microbatches=NUM_MICRO_BATCHES, seq_length=LENGTH,
        micro_batch_size=MICRO_BATCH, decoder_seq_length=LENGTH, forward_only=False,
    )  # fmt: skip
    for step in range(steps):
        model.zero_grad_buffer()
        optimizer.zero_grad()
        losses = train_step()
        _, norm, _ = optimizer.step()
        if losses:
            mean = torch.stack([part["loss"] for part in losses]).mean()
            dist.all_reduce(mean, group=parallel_state.get_data_parallel_group())
            if parallel_state.get_tensor_model_parallel_rank() == 0 and data_rank == 0:
                print(f"step {step} loss {mean.item() / data_size!r} norm {norm!r}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--pp", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--distributed-optimizer", action="store_true")
    main(**vars(parser.parse_args()))
