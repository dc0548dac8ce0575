"""Define the public functions of the top level that are written in Python, one file per topic
(docs/internals/python.md).

Each is reached as `facula.<name>`; `_shared/names.py` says which file is loaded when a name is first used.
"""
