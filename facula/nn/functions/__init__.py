"""The functions of nn.functional, one file per topic (ARCHITECTURE.md, "Rooms"); `nn/functional.py` gathers them."""
