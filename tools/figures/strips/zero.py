"""DDP and the stages of ZeRO: what each rank holds of each layer, step by step."""

from __future__ import annotations

from tools.figures.strips.film import EMPTY, OWN, Film, runs
from tools.words import say

RANKS, LAYERS = 4, 4
STAGES = ("DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3")
BYTES = {"weights": 2, "gradients": 2, "states": 12}  # bfloat16; master copy and AdamW's averages
WHOLE, PART, NONE = 1.0, 1 / RANKS, 0.0
GROUPS = (*BYTES, "activations")
NAMES = {
    "weights": say("weights"),
    "gradients": say("gradients"),
    "states": say("states"),
    "activations": say("activations"),
}


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
        self.note(say("Between two steps"))
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
                event = say("Forward, all-gather the weights of layer {i}", i=i)
                self.set("weights", i, WHOLE, event)
            self.set("activations", i, WHOLE, say("Forward, compute layer {i}", i=i))
            if self.number == 3:
                event = say("Forward, free the weights of layer {i}", i=i)
                self.set("weights", i, PART, event)

    def backward(self):
        """Go back through them."""
        for i in reversed(range(LAYERS)):
            if self.number == 3:
                event = say("Backward, all-gather the weights of layer {i}", i=i)
                self.set("weights", i, WHOLE, event)
            self.held["activations"][i] = NONE
            event = say("Backward, compute the gradients of layer {i}", i=i)
            self.set("gradients", i, WHOLE, event)
            if self.number == 0:
                self.note(say("Backward, all-reduce the gradients of layer {i}", i=i))
            event = say("Backward, reduce-scatter the gradients of layer {i}", i=i)
            if self.number == 3:
                self.held["weights"][i] = PART
                event = say(
                    "Backward, reduce-scatter the gradients of layer {i} and free its weights", i=i
                )
            if self.number >= 2:
                self.set("gradients", i, PART, event)

    def update(self):
        """Change the weights."""
        if self.number == 1:
            self.held["gradients"] = [PART] * LAYERS
            self.note(say("Reduce-scatter all gradients"))
        self.held["gradients"] = [NONE] * LAYERS
        if self.number in (0, 3):
            self.note(say("Update the weights, free the gradients"))
        else:
            event = say("Update the own part, free the gradients, all-gather the weights")
            self.note(event)


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
        values = {"event": event, "now": f"{now:.2f}", "most": f"{most:.2f}"}
        told = say(
            "{event}. Each rank holds {now} bytes for each parameter, at most {most} so far.",
            **values,
        )
        made.says.append(told)
        short = say("{now} bytes a parameter (most so far {most})", **values)
        made.text(8, 274, short, "start", since=i, until=i)
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
        made.text(_left(name, 0) + 43, 14, NAMES[name])
        for layer in range(LAYERS):
            made.text(_left(name, layer) + 10, 34, str(layer))
            for rank in range(RANKS):
                made.box(_left(name, layer), 46 + 54 * rank, 20, 48, EMPTY)
    made.text(8, 34, say("layer"), "start")
    for rank in range(RANKS):
        made.text(6, 70 + 54 * rank, say("rank {n}", n=rank), "start")


def _held(made, name, layer, share, since, until):
    for rank in range(RANKS if share else 0):
        x, y = _left(name, layer) + 1, 47 + 54 * rank
        if name == "activations":
            made.box(x, y, 18, 46, OWN, "", since, until)
            continue
        for part in range(RANKS) if share == WHOLE else [rank]:
            made.box(x, y + 11.5 * part, 18, 11.5, part, "", since, until)
