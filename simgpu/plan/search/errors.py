"""How wrong predicted steps are: from published measurements, which ran as the same programs.

`TIME` and `COMPARED` follow from the record ``records/published/plans.json`` (written by
``python -m benchmarks.published.plans``; the sources are on the page *How Far to Trust the Clock*).
A test compares them. They say nothing of plans unlike those: mixtures of experts and context
parallelism are hardly among them.
"""

SOURCE = "published steps (records/published/plans.json)"
# Measured over predicted time: nine of ten rows lie between the two.
TIME = (0.9, 1.35)
# If one of two plans for the same job is predicted to be slower by this share or more, it was
# slower in nineteen of twenty published pairs (in steps of 5 %).
COMPARED = 0.10
