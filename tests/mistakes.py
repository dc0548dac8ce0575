"""Common mistakes as programs, and what the error says: (topic, program, class, text). `test_error_texts` runs each, and
`docs/errors.md` shows some; a text may leave things out with "...".

`python tests/mistakes.py` writes the programs with the texts of today, for reading.
"""
