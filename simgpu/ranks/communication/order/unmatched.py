"""Calls that wait for ever, in words: for the errors at a deadlock and at the end."""

from simgpu.ranks.communication.order.crossing import hints


def explain(matching, queues, meetings) -> list[str]:
    """Describe calls that some ranks have made more often than others, and that cross.

    Parameters
    ----------
    matching : Matching
        What ranks have called and what has not started.
    queues : Queues
    meetings : iterable of tuple
        Of pairs of ranks that make their first message: the one that waits, and its peer.
    """
    incomplete = list(matching.incomplete.values())
    found = {
        matching.calls.compare(collective.members, part.line, collective.present): None
        for collective in incomplete
        for part in collective.participants.values()
    }
    return [*filter(None, found), *hints(incomplete, matching.complete, queues, meetings)]


def unmatched(matching, queues) -> list[str]:
    """Describe the calls that have not started, and why; parameters as for `explain`."""
    lines = [
        f"rank {part.rank} called {part.name} ({part.line}), but rank {collective.missing()[0]} "
        "never made the matching call"
        for collective in matching.incomplete.values()
        for part in collective.participants.values()
    ]
    return lines + [
        f"rank {part.rank} called {part.name} ({part.line}), {queues.explain(collective)}"
        for collective in matching.complete
        for part in collective.participants.values()
    ]
