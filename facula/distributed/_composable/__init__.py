"""Older places of `fully_shard`."""
