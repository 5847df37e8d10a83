"""The book's conclusions under other assumptions; start reading in ``assumed.py``."""
