"""Average parameters from time to time, instead of gradients in every step."""
