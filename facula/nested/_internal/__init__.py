"""What `facula.nested` is made of."""
