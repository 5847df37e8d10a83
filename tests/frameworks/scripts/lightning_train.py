"""Lightning's Trainer with DDP."""

import argparse

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    """A small network with its loss and its optimizer."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))

    def training_step(self, batch, batch_index):
        features, targets = batch
        loss = nn.functional.cross_entropy(self.net(features), targets)
        self.log("loss", loss, on_epoch=True, on_step=False, sync_dist=True)
        return loss

    def on_train_epoch_end(self):
        loss = self.trainer.callback_metrics["loss"].item()
        self.print(f"epoch {self.current_epoch} loss {loss!r}", flush=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def main(precision, devices, batch_size):
    lightning.seed_everything(0)
    data = TensorDataset(torch.randn(96, 12), torch.randint(4, (96,)))
    model = Classifier()
    trainer = lightning.Trainer(
        accelerator="gpu" if torch.cuda.is_available() else "cpu", devices=devices, strategy="ddp",
        precision=precision, max_epochs=3, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, gradient_clip_val=1.0,
    )  # fmt: skip
    trainer.fit(model, DataLoader(data, batch_size))
    total = sum(p.detach().double().sum().item() for p in model.parameters())
    model.print(f"parameters {total!r}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", default="32-true")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8)
    main(**vars(parser.parse_args()))
