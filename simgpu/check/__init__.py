"""The command ``simgpu check``: one GPU against many, and a run against a record.

A script runs on one simulated GPU and on N, with values. What it does is observed from outside:
calls of ``optimizer.step()``, ``backward()``, ``clip_grad_norm_()`` and schedulers, and the batches
of its ``DataLoader``. The report says which quantity differs, since which step, and why it may.

Start with ``command.py``. ``options.py`` lists the options, ``watch/`` runs a script and observes
it. ``comparison.py`` puts together what others find: in losses, gradients and learning rates
``values.py``, in the data ``data.py``, between ranks and in types ``replicas.py``, in calls that
only some ranks make ``collectives.py``; ``tolerance.py`` says what is noise. ``findings.py`` is
what they return, ``report.py`` the text and the JSON. ``budget.py`` is about a record of simulated
time, memory and bytes (``--record``, ``--against``).
"""
