"""What a recipe can name, without PyTorch: ``simgpu plan --help`` lists it at once."""

OF_MATRICES = ("adafactor", "muon")  # ranks must have each parameter as a whole
OPTIMIZERS = ("adamw", "adam", "sgd", "sgd-momentum", "adamw-8bit", *OF_MATRICES)  # optimizers.py
WHOLE_LOSSES, PARTIAL_LOSSES = ("eager", "compiled", "in place"), ("chunked", "fused")  # losses.py
DTYPES = ("bfloat16", "float16", "float32", "tf32", "float8")  # of products
WEIGHTS = ("float32", "bfloat16")  # of what the optimizer changes
CHUNKS = 8  # torchtune's default


def parse_loss(text):
    """Return `Program.loss` and `Program.loss_chunks` of an option's value; None if it has none.

    Examples
    --------
    >>> parse_loss("chunked:4"), parse_loss("in-place"), parse_loss("chunked:0")
    (('chunked', 4), ('in place', 8), None)
    """
    name, colon, count = text.replace("-", " ").partition(":")
    if colon:
        known = name == "chunked" and count.isdigit() and int(count) > 0
        return (name, int(count)) if known else None
    return (name, CHUNKS) if name in (*WHOLE_LOSSES, *PARTIAL_LOSSES) else None
