"""Calls of compiled functions that are made without Python's interpreter: reading the source, and the steps that it becomes."""
