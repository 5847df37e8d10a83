"""What two ranks have to agree on: what one sends is what the other expects."""

from simgpu.ranks.communication.checks.refusal import count
from simgpu.ranks.process.scheduler import RanksError


def check_pairs(call, participants) -> None:
    """Check that each rank expects from each other as many elements as that one sends.

    Parameters
    ----------
    call : str
        The name of the call.
    participants : list of Participant
        In the order of the group, if all members run.
    """
    if call not in _SENT:
        return
    given = [[tensor.numel() for tensor in one.given] for one in participants]
    filled = [[tensor.numel() for tensor in one.filled] for one in participants]
    for receiver, target in enumerate(participants):
        for sender, source in enumerate(participants):
            sent, expected = _SENT[call](given, filled, sender, receiver)
            if sent != expected:
                raise RanksError(
                    f"in {call}, rank {source.rank} has {count(sent, 'element')} for rank "
                    f"{target.rank} ({source.line}), which expects {expected} ({target.line}); "
                    "give both the same size"
                )


def _all_to_all(given, filled, sender, receiver):
    return given[sender][receiver], filled[receiver][sender]


def _all_gather(given, filled, sender, receiver):
    if len(filled[receiver]) < len(given):  # in one tensor
        return 0, 0
    return given[sender][0], filled[receiver][sender]


def _reduce_scatter(given, filled, sender, receiver):
    if len(given[sender]) < len(given):
        return 0, 0
    return given[sender][receiver], filled[receiver][0]


_SENT = {"all_to_all": _all_to_all, "all_gather": _all_gather, "reduce_scatter": _reduce_scatter}
