"""One rank's call of a collective or message, as its process group describes it."""

from dataclasses import dataclass

from simgpu.clock.trace import Communication
from simgpu.ranks.communication.order.batch import Batch


@dataclass
class Call:
    """One rank's call of a collective or message.

    Attributes
    ----------
    key : tuple
        Identifies the collective: the same for all of its parts. The first entry is the key of the
        group.
    what : Communication
        Description in the trace.
    members : tuple of int
        The ranks that take part, in the order of the group; of a message, sender and receiver.
    num_bytes : int
        Size that determines its cost, see `costs.cost`.
    compute : callable or None
        ``compute(given, filled)`` over lists of all ranks; None: nothing to compute.
    name : str
        The call, in words.
    given, filled : list of torch.Tensor
        The inputs and the outputs.
    outputs : list
        Return value of `SimWork.result`.
    stream : callable or None
        Maps a device to the stream on which to run; None: the current stream.
    same : str
        What must be equal on all ranks, in words; default: `name`.
    root : int
        Index of the root, or the sender, in `members`.
    blocks_host : bool
        Whether the host waits for the end as well.
    batch : Batch or None
        The calls of which it is one.
    """

    key: tuple
    what: Communication
    members: tuple
    num_bytes: int
    compute: object
    name: str
    given: list
    filled: list
    outputs: list
    stream: object
    same: str = ""
    root: int = 0
    blocks_host: bool = False
    batch: Batch | None = None
