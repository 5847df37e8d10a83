"""DDP and the stages of ZeRO: what each rank holds of each layer, step by step."""

from __future__ import annotations

from tools.figures.strips.film import EMPTY, OWN, Film, runs

RANKS, LAYERS = 4, 4
STAGES = ("DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3")
BYTES = {"weights": 2, "gradients": 2, "states": 12}  # bfloat16; master copy and AdamW's averages
WHOLE, PART, NONE = 1.0, 1 / RANKS, 0.0
GROUPS = (*BYTES, "activations")


class Step:
    """A training step of one stage: notes what every rank holds after each event.

    Every rank holds the same shares, each its own part of them.
    """

    def __init__(self, stage):
        self.number = STAGES.index(stage)
        every = range(LAYERS)
        self.held = {"weights": [PART if self.number == 3 else WHOLE for _ in every]}
        self.held["gradients"] = [NONE for _ in every]
        self.held["states"] = [PART if self.number else WHOLE for _ in every]
        self.held["activations"] = [NONE for _ in every]
        self.noted = []
        self.note("Between two steps")
        self.forward()
        self.backward()
        self.update()

    def note(self, event):
        """Remember what is held now."""
        self.noted.append((event, {name: list(held) for name, held in self.held.items()}))

    def set(self, name, layer, share, event):
        """Change what is held of a layer."""
        self.held[name][layer] = share
        self.note(event)

    def forward(self):
        """Go through the layers."""
        for i in range(LAYERS):
            if self.number == 3:
                self.set("weights", i, WHOLE, f"Forward, all-gather the weights of layer {i}")
            self.set("activations", i, WHOLE, f"Forward, compute layer {i}")
            if self.number == 3:
                self.set("weights", i, PART, f"Forward, free the weights of layer {i}")

    def backward(self):
        """Go back through them."""
        for i in reversed(range(LAYERS)):
            if self.number == 3:
                self.set("weights", i, WHOLE, f"Backward, all-gather the weights of layer {i}")
            self.held["activations"][i] = NONE
            self.set("gradients", i, WHOLE, f"Backward, compute the gradients of layer {i}")
            if self.number == 0:
                self.note(f"Backward, all-reduce the gradients of layer {i}")
            if self.number >= 2:
                free = " and free its weights" if self.number == 3 else ""
                self.held["weights"][i] = PART if self.number == 3 else WHOLE
                event = f"Backward, reduce-scatter the gradients of layer {i}{free}"
                self.set("gradients", i, PART, event)

    def update(self):
        """Change the weights."""
        if self.number == 1:
            self.held["gradients"] = [PART] * LAYERS
            self.note("Reduce-scatter all gradients")
        self.held["gradients"] = [NONE] * LAYERS
        self.note("Update the weights, free the gradients" if self.number in (0, 3) else
                  "Update the own part, free the gradients, all-gather the weights")  # fmt: skip


def bytes_held(held):
    """Return the bytes of a rank for each parameter of the model, activations aside."""
    return sum(BYTES[name] * sum(held[name]) / LAYERS for name in BYTES)


def film(stage):
    """Return the film of a stage."""
    made, step = Film(288), Step(stage)
    _frame(made)
    most = 0
    for i, (event, held) in enumerate(step.noted):
        now = bytes_held(held)
        most = max(most, now)
        numbers = f"{now:.2f} bytes for each parameter, at most {most:.2f} so far"
        made.says.append(f"{event}. Each rank holds {numbers}.")
        made.text(8, 274, f"{now:.2f} bytes a parameter (most so far {most:.2f})", "start",
                  since=i, until=i)  # fmt: skip
    for name in GROUPS:
        for layer in range(LAYERS):
            shares = [held[name][layer] for _, held in step.noted]
            for since, until, share in runs(shares):
                _held(made, name, layer, share, since, until)
    return made


def _left(name, layer):
    return 62 + 94 * GROUPS.index(name) + 22 * layer


def _frame(made):
    for name in GROUPS:
        made.text(_left(name, 0) + 43, 14, name)
        for layer in range(LAYERS):
            made.text(_left(name, layer) + 10, 34, str(layer))
            for rank in range(RANKS):
                made.box(_left(name, layer), 46 + 54 * rank, 20, 48, EMPTY)
    made.text(8, 34, "layer", "start")
    for rank in range(RANKS):
        made.text(6, 70 + 54 * rank, f"rank {rank}", "start")


def _held(made, name, layer, share, since, until):
    for rank in range(RANKS if share else 0):
        x, y = _left(name, layer) + 1, 47 + 54 * rank
        if name == "activations":
            made.box(x, y, 18, 46, OWN, "", since, until)
            continue
        for part in range(RANKS) if share == WHOLE else [rank]:
            made.box(x, y + 11.5 * part, 18, 11.5, part, "", since, until)
