"""Compare a run on one GPU with one on N."""

from dataclasses import replace

from simgpu.check import collectives, data, replicas, values
from simgpu.check.findings import CAUSES, Result


def compare(one, many, tolerance, any_data=False) -> Result:
    """Return what differs.

    Parameters
    ----------
    one, many : RunRecord
    tolerance : Tolerance
    any_data : bool, default False
        Whether losses are compared although examples differ.
    """
    result = Result()
    result.add(collectives.of_error(many))
    if not many.num_steps:
        return result
    found, notes = data.compare_data(one, many)
    own, drift = replicas.own_parameters(one, many), None
    if replicas.are_copies(one, many):
        drift = replicas.compare_ranks(many, own)
    found += [
        collectives.of_steps(many, replicas.are_copies(one, many)),
        values.compare_rates(one, many), drift,
        replicas.compare_types(one, many),
    ]  # fmt: skip
    for finding in filter(None, found):
        result.add(_after_a_cause(finding, result.found, ("collectives",)))
    result.notes += notes
    _compare_values(one, many, tolerance, own, any_data, result)
    notes = (
        _note_of_own(one, many, own),
        replicas.note_of_missing(one, many),
        replicas.note_of_types(one),
    )
    result.notes += filter(None, notes)
    if one.num_steps != many.num_steps and many.error is None:
        result.notes.append(
            f"one GPU made {one.num_steps} steps, {len(many.ranks)} GPUs {many.num_steps}"
        )
    return result


def _compare_values(one, many, tolerance, own, any_data, result):
    steps, result.not_compared, note = data.comparable(one, many)
    if any_data:
        steps, result.not_compared = min(one.num_steps, many.num_steps), ""
    if why := replicas.why_other_start(one, many, own):
        steps, result.not_compared = 0, why
    elif tolerance.by_chance:
        what, where = next(iter(values.random(one).items()))
        steps, result.not_compared = 0, (
            f"{what} ({where}) decides the losses: they change as much on one GPU if each batch is "
            "reversed. Compare without it"
        )  # fmt: skip
    loss = values.compare_losses(one, many, tolerance, steps)
    gradients = values.compare_gradients(one, many, tolerance, steps, own)
    if loss and gradients is None and _is_factor(loss, many) and values.shared(one, many, 0, own):
        result.notes.append(
            f"the loss is {values.factor_of(loss.one, loss.many, len(many.ranks), 1e-2)} "
            "on each GPU, but gradients agree: ranks add them up"
        )
        loss = None
    for finding in (loss, gradients):
        result.add(finding and _after_a_cause(finding, result.found, CAUSES))
    if note:
        result.notes.append(note)


def _after_a_cause(finding, found, causes):
    """Name what was found before, or in the same step, and may be the cause."""
    alike = [one for one in found if one.cause == finding.cause != "" and one.step <= finding.step]
    if alike:
        return replace(finding, cause=f"as for the {alike[0].quantity}")
    earlier = [one for one in found if one.quantity in causes and one.step <= finding.step]
    if not earlier:
        return finding
    return replace(finding, cause=f"may follow from the {earlier[0].quantity} (step "
                   f"{earlier[0].step})")  # fmt: skip


def _is_factor(loss, many):
    return bool(values.factor_of(loss.one, loss.many, len(many.ranks), 1e-2))


def _note_of_own(one, many, own):
    """Say which parameters are a rank's own, at first sight or by what they become."""
    if own:
        return (
            f"{len(own)} parameters have another size or other values on each rank from the start, "
            f"such as {min(own)}: taken for the rank's own, and not compared"
        )
    if not replicas.are_copies(one, many) and (drift := replicas.compare_ranks(many, own)):
        return f"{drift.text}, from step {drift.step} on: right if each rank has its own there"
    return ""
