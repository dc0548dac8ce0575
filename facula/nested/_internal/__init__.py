"""Define the parts of `facula.nested`."""

from . import rules_products, rules_reduce, rules_shape  # they fill the table of rules.py
