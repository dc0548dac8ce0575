"""Provide helpers that files of the package share; nothing here imports the rest of the package.

names        lazy names and modules of `facula`, aliases, constants
on_demand    names and files that are imported when they are first used
near_names   errors for unknown names, with the nearest known one
autocast     autocast for functions written in Python
dims         dimensions as arguments
quantities   bytes and seconds as texts
text_table   tables as text
"""
