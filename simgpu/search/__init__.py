"""``simgpu plan --search``: which plan trains a model fastest on given GPUs.

The model, the batch, the length of sequences and the numbers' type stay as they are: they decide
what is learned. Searched is what decides only how long it takes: the mesh, the micro-batch, the
schedule of the pipeline, recomputation, and ZeRO's stage.

Start with ``space.py`` (which plans there are, and which are possible) and ``best_first.py`` (the
search). ``bounds.py`` has lower bounds of time and memory, which only decide what is not
simulated: every time and memory that is printed comes from `simgpu.plan.simulate`. ``command.py``
goes from a request to what is printed, ``report.py`` prints, ``export.py`` writes flags for other
programs; `simgpu.plan.errors` says how wrong predictions are.
"""
