"""Averages of parameters, now and then, instead of gradients in every step."""
