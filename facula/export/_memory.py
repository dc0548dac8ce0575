"""Track the values of a program while its writes are removed: for every view and every written tensor, its present
value.

`_functional.py`, which runs a program without writes, and `facula.onnx`, which has none, both use this file. They
determine themselves which nodes write and which results are views.
"""

from __future__ import annotations


class Memory:
    """Hold values by keys, some of which are views of others."""

    def __init__(self):
        self.values = {}  # key -> what it was when it was looked at last
        self.shown = {}  # key -> (the key that it shows, how it is made of that one, how that one is when it is written)
        self.versions, self.seen = {}, {}  # how often a root was written, and as of which of them a value is

    def root(self, key):
        """Return the key whose memory a key shows; itself where it shows none."""
        while key in self.shown:
            key = self.shown[key][0]
        return key

    def version(self, key):
        """Return how often the memory of a key was written."""
        return self.versions.get(self.root(key), 0)

    def read(self, key):
        """Return a value as it is now; a view of what was written is made anew."""
        version = self.version(key)
        if self.seen.get(key, version) != version:
            of, again, _ = self.shown[key]
            self.values[key] = again(self.read(of))
            self.seen[key] = version
        return self.values[key]

    def show(self, key, of, again, put_back):
        """Say that a key is a view.

        Args:
            key: of the view, whose value is put into `values`.
            of: the key that it shows.
            again: makes its value of that of `of`.
            put_back: gives the value of `of` after a write to the view, of both values.
        """
        self.shown[key] = of, again, put_back
        self.seen[key] = self.version(of)

    def show_same(self, key, of):
        """Say that a key is another name of `of`: the result of a write."""
        self.show(key, of, lambda value: value, lambda _, value: value)
        self.values[key] = self.values[of]

    def write(self, key, value):
        """Make a value another one from now on, and what it shows a part of."""
        if key in self.shown:
            of, _, put_back = self.shown[key]
            self.write(of, put_back(self.read(of), value))
        else:
            self.versions[key] = self.versions.get(key, 0) + 1
        self.values[key] = value
        self.seen[key] = self.version(key)
