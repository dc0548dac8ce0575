"""What `facula.nested` is made of."""

from . import rules_products, rules_reduce, rules_shape  # they fill the table of rules.py
