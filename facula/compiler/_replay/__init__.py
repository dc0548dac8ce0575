"""Make calls of compiled functions without Python's interpreter: read the source, and convert it to steps."""
