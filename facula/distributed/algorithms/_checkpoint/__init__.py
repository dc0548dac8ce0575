"""Define modules whose activations are computed again, or stored elsewhere."""
