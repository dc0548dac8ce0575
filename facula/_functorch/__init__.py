"""What PyTorch's package of this name has and programs take from there; the functions themselves are those of `facula.func`."""
