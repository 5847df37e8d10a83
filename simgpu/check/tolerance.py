"""By how much two runs may differ: sums in another order round in another way."""

from dataclasses import dataclass

from simgpu.check import values
from simgpu.check.values import difference

TIMES = 20  # what ranks change is allowed to be so many times what the order in a batch changes
LEAST = {False: 1e-4, True: 1e-2}  # without and with 16-bit products
UNMEASURED = {False: 1e-3, True: 3e-2}


@dataclass(frozen=True)
class Tolerance:
    """The relative difference that is allowed, step by step.

    Attributes
    ----------
    shares : list of float
        By step.
    why : str
        How they were chosen.
    by_chance : bool
        Whether random numbers decide the losses of one GPU already.
    """

    shares: list
    why: str
    by_chance: bool = False

    def at(self, index) -> float:
        """Return the share that is allowed in a step."""
        return self.shares[min(index, len(self.shares) - 1)]


def choose(one, again, given=None) -> Tolerance:
    """Choose a tolerance.

    Parameters
    ----------
    one : RunRecord
        The run on one GPU.
    again : RunRecord or None
        The same with the examples of each batch in reverse order; None: that was not possible.
    given : float, optional
        What the user wants.
    """
    if given is not None:
        return Tolerance([given], f"{given:g}, as given")
    half = any(kind in one.flops for kind in ("bfloat16", "float16"))
    kind = "with 16-bit products" if half else "in float32"
    if again is None or again.code or again.num_steps < one.num_steps:
        why = f"{UNMEASURED[half]:g} {kind}, assumed: no loader whose batches could be reversed"
        return Tolerance([UNMEASURED[half]], why)
    noise, most = [], 0.0
    for i in range(one.num_steps):
        pairs = [
            (measure(one, i), measure(again, i)) for measure in (values.loss, values.gradient_norm)
        ]
        most = max([most, *(difference(a, b) for a, b in pairs if None not in (a, b))])
        noise.append(most)
    by_chance = bool(noise) and noise[0] > LEAST[half] and bool(values.random(one))
    shares = [max(LEAST[half], TIMES * share) for share in noise] or [LEAST[half]]
    grown = f" in step 1, {shares[-1]:.2g} in step {len(shares)}" * (shares[-1] > shares[0])
    why = (
        f"{shares[0]:.2g}{grown}: {TIMES} times what reversing each batch changes on one GPU, and "
        f"at least {LEAST[half]:g} {kind}"
    )
    return Tolerance(shares, why, by_chance)
