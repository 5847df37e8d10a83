"""Other people's trainers, as they are, on simulated GPUs: which were tried, and what came of it.

`programs.csv` has the programs, ``records/programs/runs.json`` their latest runs.
"""
