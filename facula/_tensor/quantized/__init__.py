"""Implement quantized tensors: values that are stored as integers of one or four bytes, with a scale and a zero point.

schemes   how integers stand for values
tensor    the tensors
rules     what functions do with them

Public functions are in facula/functions/quantize.py, modules in facula/ao.
"""

from . import rules
