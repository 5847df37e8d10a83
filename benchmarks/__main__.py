"""Run the benchmarks: ``python -m benchmarks``."""
