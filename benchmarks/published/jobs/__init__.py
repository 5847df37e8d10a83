"""Training steps of published jobs, as programs that folded simulated ranks run.

Start with ``job.py`` (what a job is) and ``simulate.py`` (its time and memory).
"""
