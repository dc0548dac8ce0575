"""Implement the private parts of `facula.serialization`, with one file for each concept.

zip_writer, zip_reader   the container: aligned, stored records; a strict reader
pickle_writer            objects to pickle opcodes, refusing what a load could not restore
pickle_reader            pickle opcodes to objects, calling nothing but the table's own builders
allowed, inert, classes  what a checkpoint may name: torch's names, plain data, the program's classes
legacy                   the stream format from before the zip container
locations                which device a storage goes to
rebuild                  functions that pickles and files name to rebuild tensors, and what a tensor is pickled as
tensors                  every call into the core
"""
