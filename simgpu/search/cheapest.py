"""The cheapest run that ends in time: which GPUs of a file of prices, how many, and which plan.

More GPUs of a kind end sooner and, as they wait for each other, seldom cost less. So of each kind
full boards are doubled until a plan ends in time. A number of GPUs is not simulated if it would be
too late, or dearer than what is known, even at the peak of the data sheet.
"""

from dataclasses import dataclass

from simgpu.bands.find import in_words
from simgpu.hardware.presets import GPUS
from simgpu.plan.errors import kind_of_job
from simgpu.plan.prices import HOUR, Cost
from simgpu.plan.report import model_in_words
from simgpu.plan.step.job import PlanError
from simgpu.search.best_first import Tried
from simgpu.units import billions, days, dollars

MOST = 64  # GPUs, if no number is given
LATE, DEAR = "too late even at the peak", "dearer even at the peak"
NEEDS = "prices", "tokens", "within", "global_batch"


@dataclass(frozen=True)
class Offer:
    """A number of GPUs of a kind, and the fastest plan on them, if one was simulated.

    Attributes
    ----------
    gpu : str
    gpus : int
    tried : Tried, optional
    cost : Cost, optional
    reason : str
        Why there is no plan.
    """

    gpu: str
    gpus: int
    tried: Tried | None = None
    cost: Cost | None = None
    reason: str = ""

    @property
    def price(self):
        """Dollars that the run costs."""
        return self.cost.dollars_of(self.cost.tokens)

    def to_dict(self) -> dict:
        """Return the numbers, for JSON."""
        return {
            "gpu": self.gpu,
            "gpus": self.gpus,
            "plan": self.tried and str(self.tried.plan),
            "reason": self.reason,
            "cost": self.cost and self.cost.to_dict(),
        }

    def __str__(self):
        name = f"{self.gpus} x {self.gpu}"
        if self.tried is None:
            return f"{name:<22} {self.reason}"
        verdict = "ends in time" if self.cost.in_time else "too late"
        took, price = days(self.cost.run_seconds), dollars(self.price)
        return f"{name:<22} {took:<12} {price:<12} {verdict:<14} {self.tried.plan}"


class Cheapest:
    """Looks for the cheapest run that ends in time.

    Parameters
    ----------
    request_of : callable
        ``request_of(gpu, gpus)`` returns the `Request` with these GPUs, `gpus` None: a full board.
    search : callable
        ``search(request)`` returns the fastest `Tried` that fits, or None.
    money : Money
    gpus : list of str
        The kinds of GPUs.
    most : int
        GPUs in all.
    """

    def __init__(self, request_of, search, money, gpus, most):
        self.request_of, self.search, self.money, self.most = request_of, search, money, most
        self.best = None
        self.kinds = sorted(gpus, key=lambda gpu: self._least(request_of(gpu, None))[1])

    def offers(self):
        """Yield what was found of each number of GPUs; `best` is the cheapest in time so far."""
        for gpu in self.kinds:
            board = gpus = self.request_of(gpu, None).gpus
            while gpus <= max(self.most, board):
                offer = self._offer(gpu, gpus)
                yield offer
                if self._is_enough(offer):
                    break
                gpus *= 2

    def _is_enough(self, offer):
        """Return whether more GPUs of that kind need not be looked at."""
        if offer.cost is None:
            return offer.reason == DEAR
        return offer.cost.in_time or (self.best is not None and offer.price >= self.best.price)

    def _offer(self, gpu, gpus):
        try:
            request = self.request_of(gpu, gpus)
            seconds, price = self._least(request)
            if seconds > self.money.within:
                return Offer(gpu, gpus, reason=f"{LATE}: {days(seconds)}")
            if self.best is not None and price > self.best.price:
                return Offer(gpu, gpus, reason=DEAR)
            return self._found(request, gpu, gpus)
        except PlanError as error:
            return Offer(gpu, gpus, reason=error.reason or str(error))

    def _found(self, request, gpu, gpus):
        tried = self.search(request)
        if tried is None:
            return Offer(gpu, gpus, reason="no plan fits")
        tokens = tried.job.sequences * tried.job.model.work[0]
        offer = Offer(gpu, gpus, tried, request.cost(tried.step.seconds, tokens))
        if offer.cost.in_time and (self.best is None or offer.price < self.best.price):
            self.best = offer
        return offer

    def _least(self, request):
        """Return the seconds and the dollars of the run at the peak of the GPUs."""
        model, gpus = request.model, request.gpus
        flops = model.flops(1) / model.seq * self.money.tokens
        seconds = flops / request.cluster.gpu.flops[request.dtype] / gpus
        return seconds, seconds / HOUR * gpus * request.price


def candidates(prices, gpu=None):
    """Return the GPUs to look at: the one that is named, or the presets that have a price.

    Raises
    ------
    PlanError
        If there is none.
    """
    known = [gpu] if gpu else [name for name in prices.of_gpus if name in GPUS]
    if not known:
        raise PlanError(
            f"--cheapest: {', '.join(prices.of_gpus)} are no presets; name one with --gpu"
        )
    return known


def check(request, given):
    """Refuse a request that lacks what is needed to compare runs."""
    missing = [name for name in NEEDS if given.get(name) is None]
    if missing:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in missing)
        raise PlanError(f"--cheapest needs {options}: all runs are the same but for their GPUs")
    if not request.model.has_sizes:
        raise PlanError("--cheapest needs the sizes of a model, not a .py file")


def heading(request) -> str:
    """Return what is looked for, in words."""
    money = request.money
    return (
        f"simulated, not measured: {model_in_words(request.model)}, "
        f"{billions(money.tokens)} tokens within {days(money.within)}\n"
        f"  prices of {money.prices.date}: {money.prices.source}"
    )


def verdict(best) -> str:
    """Return the cheapest offer in words, and how sure its time is."""
    if best is None:
        return "none ends in time; allow more GPUs (--gpus) or more time (--within)"
    job, step = best.tried.job, best.tried.step
    sure = in_words(step.seconds, kind_of_job(job, step.causes))
    return (
        f"the cheapest that ends in time: {best.gpus} x {best.gpu}, {best.tried.plan}, "
        f"{dollars(best.price)} in {days(best.cost.run_seconds)}\n"
        f"how sure: {sure}\n"
        "  said of a step; the whole run and its price are as sure"
    )
