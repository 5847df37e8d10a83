"""What a model is, by its sizes."""

from dataclasses import dataclass, field, replace

from simgpu.plan.step import rules


@dataclass(frozen=True)
class Model:
    """A transformer that predicts the next token.

    Attributes
    ----------
    hidden, heads, layers, seq, vocabulary : int
    kv_heads : int, optional
        Heads of keys and values, by default `heads`.
    inner : int, optional
        Width of the feed-forward part, by default four times `hidden`.
    gated : bool
        SwiGLU, RMS norm and rotary positions (Llama), not GELU, layer norm, learned positions.
    tied : bool
        The embedding is the output layer, too.
    dropout : bool
        After attention and feed-forward part, and of the scores.
    biases : bool
        Products and norms have biases.
    experts, active : int
        Feed-forward parts of a layer, and how many of them work on a token; 0 and 0: not split.
    shared : int
        Width of a further feed-forward part, beside the experts, that works on every token.
    head : int, optional
        Numbers of a head, by default `hidden` / `heads`.
    name : str
        What messages call it.
    """

    hidden: int
    heads: int
    layers: int
    seq: int
    vocabulary: int
    kv_heads: int | None = None
    inner: int | None = None
    gated: bool = False
    tied: bool = True
    dropout: bool = False
    biases: bool = False
    experts: int = 0
    active: int = 0
    shared: int = 0
    head: int | None = None
    name: str = field(default="the model", compare=False)
    has_sizes = True  # it can be split, and bounds of its time follow from formulas

    @property
    def work(self):
        """What a sequence counts in rates, and in which unit."""
        return self.seq, "tokens"

    @property
    def no_experts(self):
        """Why its tokens cannot be routed to experts, in words."""
        return f"{self.name} has no experts"

    @property
    def head_size(self):
        """Numbers of a head."""
        return self.head or self.hidden // self.heads

    @property
    def width(self):
        """Width of the feed-forward part."""
        return self.inner or 4 * self.hidden

    @property
    def keys(self):
        """Heads of keys and values."""
        return self.kv_heads or self.heads

    @property
    def layer_parameters(self):
        """Weights of a layer, without biases."""
        return self.dense_parameters + self.expert_parameters * max(self.experts, 1)

    @property
    def dense_parameters(self):
        """Weights of a layer without its experts, or its only feed-forward part."""
        return self._attention_parameters + self._feed_forward(self.shared)

    @property
    def _attention_parameters(self):
        return self.hidden * (2 * self.head_size * (self.heads + self.keys) + self.experts)

    @property
    def expert_parameters(self):
        """Weights of one feed-forward part, or of one expert."""
        return self._feed_forward(self.width)

    def _feed_forward(self, width):
        return (3 if self.gated else 2) * self.hidden * width

    @property
    def parameters(self):
        """All weights, without biases and norms."""
        rows = self.vocabulary * (1 if self.tied else 2) + (0 if self.gated else self.seq)
        return self.layers * self.layer_parameters + rows * self.hidden

    def flops(self, sequences, recompute=False):
        """FLOPs of a step, attention in full: ``6 N + 12 l h s`` a token (8 and 16 if twice).

        N are the weights that work on a token, without the table that is only looked up, and h is
        what all heads have together.
        """
        used = self.dense_parameters + self.expert_parameters * max(self.active, 1)
        layers = self.layers * (used * 6 + 12 * self.heads * self.head_size * self.seq)
        head = 6 * self.vocabulary * self.hidden
        return sequences * self.seq * (layers * (4 if recompute else 3) / 3 + head)

    def with_sequence(self, tokens):
        """Return the model with sequences of another length."""
        return replace(self, seq=tokens)

    def broken_rules(self, job):
        """Yield an error for each rule that a job of this model breaks."""
        return rules.broken_rules(job)
