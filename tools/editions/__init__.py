"""Editions of the book in other languages, from one source."""
