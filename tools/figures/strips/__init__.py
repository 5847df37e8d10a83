"""Strips: what each rank holds, step by step, drawn from a model of the algorithm.

A `Film` is the only description of a strip. `tools/figures` draws one moment of it for paper,
notebooks and pages without JavaScript; the directive ``strip`` (``tools.pages.strips``) puts
all moments into the page as data, which ``assets/strip.js`` draws in the picture's place.
"""
