"""What ``make bench`` runs: each module ``bench_NAME`` has ``rows(settings)``, a list of `Row`.

``settings`` is a `benchmarks.measure.Settings`. `benchmarks.measure.interleave` measures variants
in turns; a `benchmarks.measure.Row` is one line of the table.
"""
