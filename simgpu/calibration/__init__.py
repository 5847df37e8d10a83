"""Measuring a real GPU, for a spec that the clock can use."""
