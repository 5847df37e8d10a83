"""What ``make bench`` runs: each module ``bench_NAME`` has ``rows(settings)``, a list of `Row`.

``settings`` is a `benchmarks.measure.Settings`; a row is made with `benchmarks.measure.compare` (ours
against a peer, interleaved) or `benchmarks.measure.Row` directly.
"""
