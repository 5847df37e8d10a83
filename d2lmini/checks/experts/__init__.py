"""Checkers for the exercises of the chapter on experts."""
