"""Make the small data that programs read. Each function writes to the path that it receives."""

from __future__ import annotations

import struct

import numpy as np


def digits(count):
    """Return `count` images of ten shapes, 28 x 28, with noise, and the numbers of the shapes."""
    draw = np.random.RandomState(0)
    shapes = np.kron(draw.rand(10, 7, 7) > 0.6, np.ones((4, 4)))
    labels = draw.randint(0, 10, count)
    images = shapes[labels] * 200 + draw.rand(count, 28, 28) * 55
    return images.astype(np.uint8), labels.astype(np.uint8)


def mnist(place):
    """Write the files of MNIST, in the folder in which torchvision looks for them."""
    raw = place / "MNIST" / "raw"
    raw.mkdir(parents=True)
    images, labels = digits(800)
    for name, part in (("train", slice(0, 600)), ("t10k", slice(600, 800))):
        head = struct.pack(">IIII", 2051, len(images[part]), 28, 28)
        (raw / f"{name}-images-idx3-ubyte").write_bytes(head + images[part].tobytes())
        (raw / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, len(labels[part])) + labels[part].tobytes())


def _words(count):
    draw = np.random.RandomState(1)
    syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    lexicon = ["".join(draw.choice(syllables, draw.randint(1, 4))) for _ in range(300)]
    weights = 1 / np.arange(1, 301)
    return draw.choice(lexicon, count, p=weights / weights.sum())


def text(place):
    """Write a file of about 100 kB of text: lines of made-up words, some more frequent than others."""
    words = _words(20000)
    place.write_text("\n".join(" ".join(words[i : i + 8]) for i in range(0, len(words), 8)) + "\n")


def names(place):
    """Write a file with a made-up name in each line."""
    place.write_text("\n".join(sorted(set(_words(4000)))) + "\n")


def corpus(place):
    """Write a folder with train.txt, valid.txt and test.txt."""
    place.mkdir(parents=True)
    words = _words(14000)
    for name, part in (("train", words[:10000]), ("valid", words[10000:12000]), ("test", words[12000:])):
        (place / f"{name}.txt").write_text("\n".join(" ".join(part[i : i + 10]) for i in range(0, len(part), 10)) + "\n")
