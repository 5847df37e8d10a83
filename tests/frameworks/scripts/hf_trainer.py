"""Transformers' Trainer with a GPT-2 made from a configuration."""

import argparse

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


def main(output_dir, use_cpu, bf16, batch_size):
    set_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=96, n_positions=32, n_embd=32, n_layer=2, n_head=2,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
        )
    )  # fmt: skip
    data = [{"input_ids": row, "labels": row} for row in torch.randint(96, (48, 24))]
    arguments = TrainingArguments(
        output_dir, per_device_train_batch_size=batch_size, gradient_accumulation_steps=2,
        num_train_epochs=2, learning_rate=1e-3, logging_steps=1, save_strategy="no",
        report_to="none", disable_tqdm=True, use_cpu=use_cpu, bf16=bf16,
    )  # fmt: skip
    trainer = Trainer(model=model, args=arguments, train_dataset=data, eval_dataset=data[:16])
    result = trainer.train()
    metrics = trainer.evaluate()
    if trainer.is_world_process_zero():
        for entry in trainer.state.log_history:
            if "grad_norm" in entry:
                print(f"step {entry['step']} loss {entry['loss']!r} norm {entry['grad_norm']!r}")
        print(f"train loss {result.training_loss!r} eval loss {metrics['eval_loss']!r}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("output_dir")
    parser.add_argument("--use-cpu", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--batch-size", type=int, default=4)
    main(**vars(parser.parse_args()))
