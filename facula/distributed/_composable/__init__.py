"""Provide `fully_shard` under an older path."""
