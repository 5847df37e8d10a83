"""Checker of a loop that limits how far the host runs ahead of the device."""

import simgpu as sim
from d2lmini.checks.shared import slow_machine
from d2lmini.checks.shared.solution import checker

NUM_STEPS = 10


@checker("run_steps(step, num_steps, max_in_flight)")
def check_run_steps(run_steps):
    """Check a loop that limits how far the host runs ahead of the device.

    Parameters
    ----------
    run_steps : callable
        ``run_steps(step, num_steps, max_in_flight)``: ``step()`` launches one step and returns an
        event that is done when the step is done; ``event.synchronize()`` waits for it. At most
        `max_in_flight` steps may be in flight, and none when it returns.

    Raises
    ------
    AssertionError
        If steps are missing, too many are in flight, the device idles although more are allowed,
        or the loop does not wait for the last steps.
    """
    for limit in (1, 2, 4):
        (device,) = sim.configure(1, gpu=slow_machine.GPU, link=slow_machine.LINK)
        X = slow_machine.matrices(1)[0].to(device)
        sim.synchronize()
        sim.reset()
        events, in_flight = [], []

        def step(X=X, events=events, in_flight=in_flight):
            if len(events) == 10 * NUM_STEPS:
                raise AssertionError(f"more steps were launched than the {NUM_STEPS} asked for")
            X @ X
            events.append(sim.Event())
            events[-1].record()
            in_flight.append(sum(not event.query() for event in events))
            return events[-1]

        run_steps.at(f"at most {limit} in flight")(step, NUM_STEPS, limit)
        _check_run(events, in_flight, limit)
    print("run_steps: passed")


def _check_run(events, in_flight, limit):
    where = f"{NUM_STEPS} steps, at most {limit} in flight"
    assert len(events) == NUM_STEPS, f"{where}: {len(events)} steps were launched"
    assert max(in_flight) <= limit, (
        f"{where}: {max(in_flight)} were. Without a wait the host launches everything at once: "
        "memory that it lends to the steps, such as pinned buffers, is lent to all of them "
        "together, and what you measure is how long launching takes. Wait for the oldest step "
        "before you launch the next"
    )
    assert all(event.query() for event in events), (
        f"{where}: the loop returns before the last steps are done; wait for them, or the time "
        "measured leaves them out"
    )
    spans = [span for span in sim.trace() if span.engine == "compute"]
    idle = spans[-1].end - spans[0].start - sum(span.duration for span in spans)
    assert limit == 1 or idle <= slow_machine.EPSILON, (
        f"{where}: the device idles for {idle * 1e6:.3g} microseconds, since at times nothing is "
        "launched ahead. Wait for the oldest step in flight, not for the newest, and not for all"
    )
