"""Families of published tables: how a row is read, and what is predicted of it."""
