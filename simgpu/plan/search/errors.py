"""How wrong predicted steps are: from published measurements, which ran as the same programs.

`TIME` and `COMPARED` are computed from the record ``records/published/plans.json`` (written by
``python -m benchmarks.published.plans``, which has the sources); a test compares them.
"""

SOURCE = "published steps that ran as this program, records/published/plans.json"
# Measured over predicted time: nine of ten rows lie between the two.
TIME = (0.9, 1.4)
# If one of two plans for the same job is predicted to be faster by this share or more, it was
# faster in nineteen of twenty published pairs (rounded up to 5 %).
COMPARED = 0.10
