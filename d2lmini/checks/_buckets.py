"""What is right in the exercise on buckets, and what made an answer wrong."""

import math


def buckets_of(sizes, first_cap, cap):
    """Return the right buckets; see `check_make_buckets`."""
    buckets, under_way = [], 0
    for size in reversed(sizes):
        under_way += size
        if under_way >= (cap if buckets else first_cap):
            buckets.append(under_way)
            under_way = 0
    return buckets + [under_way] * (under_way > 0)


def explain_buckets(sizes, first_cap, cap, got):
    if got == buckets_of(sizes[::-1], first_cap, cap):
        return "The backward pass begins with the last layer: go through the gradients backwards"
    if got == buckets_of(sizes, cap, cap):
        return "The first bucket has a limit of its own"
    if got == buckets_of(sizes, first_cap, first_cap):
        return "The limit of the first bucket holds for the first bucket only"
    if sum(got) < sum(sizes):
        return f"{sum(sizes) - sum(got)} bytes are never sent; what remains at the end goes last"
    if 0 in got:
        return "An empty bucket is not sent"
    return "A bucket is closed by the gradient with which it reaches its limit; that one is in it"


def exposed(buckets, seconds, backward_end):
    """Return the right answer, given the seconds of every allreduce."""
    done = 0.0
    for (ready, _), each in zip(buckets, seconds, strict=True):
        done = max(done, ready) + each
    return max(0.0, done - backward_end)


def explain_exposed(buckets, k, end, latency, bandwidth, got):
    def those(factor=2 * (k - 1) / k, latency=latency):
        return [latency + factor * size / bandwidth for _, size in buckets]

    ends = [ready + each for (ready, _), each in zip(buckets, those(), strict=True)]
    together = max(0.0, max(ends) - end)
    answers = (
        (sum(those()), "That is how long all of it travels; what travels beside the backward pass "
         "costs nothing"),
        (together, "A bucket must wait until the one before it has arrived"),
        (those()[-1], "That is the last bucket alone; others may be in its way"),
        (exposed(buckets, those(factor=1.0), end), "An allreduce moves 2 (k - 1) / k times the "
         "bytes of the buffer, not the bytes themselves"),
        (exposed(buckets, those(factor=2.0), end), "The factor is 2 (k - 1) / k, not 2"),
        (exposed(buckets, those(factor=(k - 1) / k), end), "The factor is 2 (k - 1) / k, since "
         "the bytes go round twice: once to be added up, once to reach every GPU"),
        (exposed(buckets, those(factor=4 * (k - 1) / k), end), "The 2 counts twice: 2 (k - 1) / k "
         "has it already"),
        (exposed(buckets, those(latency=0.0), end), "Every bucket pays the latency"),
        (max(0.0, sum(those()) - end), "The first bucket cannot travel before it is full"),
    )  # fmt: skip
    for answer, hint in answers:
        if math.isclose(got, answer, rel_tol=1e-6):
            return hint
    if got < 0:
        return "What ends before the backward pass costs nothing: 0, not less"
    return (
        "A bucket starts when it is full and the one before has arrived; count from the end of "
        "the backward pass"
    )
