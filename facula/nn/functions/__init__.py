"""Define the functions of nn.functional, one file per topic (docs/internals/python.md). `nn/functional.py` collects them."""
