"""The rules that programs can check in translated blocks.

Examples
--------
>>> terms = read_terms("tr")
>>> print(*problems("tr", "Two take **0.5 s**.", "İkisi **0.5 s** sürer.", terms))
error: numbers: a decimal point in 0.5
"""

from tools.editions.rules.block import Problem, problems
from tools.editions.rules.terms import first_uses
from tools.editions.rules.terms import read as read_terms

__all__ = ["Problem", "first_uses", "problems", "read_terms"]
