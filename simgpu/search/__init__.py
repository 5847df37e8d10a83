"""``simgpu plan --search``: which plan trains a model fastest on given GPUs.

The model, the batch, the length of sequences and the numbers' type stay as they are: they decide
what is learned. Searched is what decides only how long it takes: the mesh, the micro-batch, the
schedule of the pipeline, recomputation, and ZeRO's stage.

Start with ``space.py`` (what a plan is, which there are, which cannot be) and ``best_first.py``
(the search). ``floors.py`` has lower bounds of time and memory, which only decide what is not
simulated: every time and memory that is printed comes from `simgpu.plan.simulate`. ``errors.py``
says how wrong these are, ``report.py`` prints, ``export.py`` writes flags for other programs.
"""
