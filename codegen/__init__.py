"""Reads ops/*.yaml and writes the generated sources. Plain Python and PyYAML; `python -m codegen --help`."""
