"""Read ops/*.yaml and write the generated sources. It is plain Python with PyYAML; `python -m codegen --help`."""
