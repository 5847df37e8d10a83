"""Train on one GPU, if there is one: `ddp_plain.py` before its ten changes."""

import argparse

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--parts", type=int, default=1)  # of each minibatch
parser.add_argument("--cpu", action="store_true", help="use no GPU")
parser.add_argument("--save", metavar="FILE")
args = parser.parse_args()

device = torch.device("cpu")
if torch.accelerator.is_available() and not args.cpu:
    device = torch.accelerator.current_accelerator()

torch.manual_seed(0)
X = torch.randn(613, 64)
y = (X @ torch.randn(64, 10)).argmax(dim=1)
train_set = TensorDataset(X[:512], y[:512])
loader = DataLoader(train_set, args.batch_size, shuffle=True)
X_test, y_test = X[512:].to(device), y[512:].to(device)

net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
model = net.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

for epoch in range(3):
    sums = torch.zeros(4, device=device)  # losses, examples, hits, tested
    for features, labels in loader:
        features, labels = features.to(device), labels.to(device)
        optimizer.zero_grad()
        for part in range(args.parts):
            x, target = (t[part :: args.parts] for t in (features, labels))
            loss = cross_entropy(model(x), target, reduction="sum")
            (loss / len(labels)).backward()
            sums[0] += loss.detach()
        optimizer.step()
        sums[1] += len(labels)
    with torch.no_grad():
        hits = net(X_test).argmax(dim=1) == y_test
    sums[2], sums[3] = hits.sum(), len(hits)
    loss, accuracy = sums[0] / sums[1], sums[2] / sums[3]
    print(f"epoch {epoch}: loss {loss:.8f}, accuracy {accuracy:.4f}")
    if args.save:
        weights = {k: v.cpu() for k, v in net.state_dict().items()}
        torch.save(weights, args.save)
