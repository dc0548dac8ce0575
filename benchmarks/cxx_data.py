"""Make small synthetic data for the programs of benchmarks/cxx_programs.py, so that they finish in minutes.

    python -m benchmarks.cxx_data DIR [--mnist 600] [--mnist-test 300]

DIR gets `data`, which is what `--data` of benchmarks/cxx_programs.py wants, and beside it `tutorials`, with the models
that programs load: small networks exported by Facula, and the weights of a VGG-19. libtorch reads MNIST only with its
full 60,000 and 10,000 images.
"""

from __future__ import annotations

import argparse
import struct
import sys
import zlib
from pathlib import Path

import numpy

import facula
from facula import nn

WORDS = "a the dog cat child runs plays sits in on with red blue green ball grass street tree water snow jumps over".split()


def images(count, classes, size, channels, random):
    """Return (count, channels, size, size) bytes with a bright square whose place is the class, and the classes."""
    labels = random.integers(0, classes, count)
    pixels = random.integers(0, 60, (count, channels, size, size), dtype=numpy.uint8)
    step = (size - size // 4) // (classes - 1)
    for image, label in zip(pixels, labels, strict=True):
        image[:, label * step : label * step + size // 4, size // 4 : size // 2] += 150
    return pixels, labels.astype(numpy.uint8)


def write_mnist(place, part, count, random):
    pixels, labels = images(count, 10, 28, 1, random)
    (place / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, count, 28, 28) + pixels.tobytes())
    (place / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, count) + labels.tobytes())


def write_cifar(place, random):
    for name in [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]:  # of a size that readers check
        pixels, labels = images(10_000, 10, 32, 3, random)
        (place / name).write_bytes(numpy.concatenate([labels[:, None], pixels.reshape(10_000, -1)], 1).tobytes())


def png(pixels):
    """Return the file of an image (3, height, width)."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    _, height, width = pixels.shape
    rows = pixels.transpose(1, 2, 0).reshape(height, -1)
    raw = b"".join(b"\0" + row.tobytes() for row in rows)
    head = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def write_pictures(place, names, size, random):
    place.mkdir(parents=True, exist_ok=True)
    pixels, _ = images(len(names), 10, size, 3, random)
    for name, picture in zip(names, pixels, strict=True):
        (place / name).write_bytes(png(picture))


def write_captions(place, random):
    texts, pictures = place / "Flickr8k_text", place / "Flickr8k_Dataset" / "Flicker8k_Dataset"
    texts.mkdir(parents=True)
    names = [f"{i}.jpg" for i in range(24)]
    write_pictures(pictures, names, 64, random)
    lines = [f"{name}#{i}\t{' '.join(random.choice(WORDS, 8))}" for name in names for i in range(5)]
    (texts / "Flickr8k.token.txt").write_text("\n".join(lines) + "\n")
    for part, chosen in {"train": names[:12], "dev": names[12:18], "test": names[18:]}.items():
        (texts / f"Flickr_8k.{part}Images.txt").write_text("\n".join(chosen) + "\n")


class Residual(nn.Module):
    """Define a network with the parts whose names the programs use."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 7, stride=4, padding=3)
        self.bn1 = nn.BatchNorm2d(8)
        self.layer1 = nn.Sequential(nn.Conv2d(8, 16, 3, stride=4), nn.BatchNorm2d(16), nn.ReLU())
        self.fc = nn.Linear(16, 1000)

    def forward(self, x):
        return self.fc(self.layer1(facula.relu(self.bn1(self.conv1(x)))).mean((2, 3)))


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 16, 8, stride=8), nn.ReLU(), nn.Conv2d(16, 32, 4, stride=4), nn.ReLU())
        self.register_buffer("out_channels", facula.tensor(32))

    def forward(self, x):
        return self.layers(x)


def vgg19():
    layers, channels = [], 3
    for width in (64, 64, 0, 128, 128, 0, *[256] * 4, 0, *[512] * 4, 0, *[512] * 4, 0):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()] if width else [nn.MaxPool2d(2, 2)]
        channels = width or channels
    return nn.Sequential(*layers)


def write_models(place):
    basics, advanced = place / "basics", place / "advanced"
    for folder in ("basics/pytorch_basics", "advanced/image_captioning", "advanced/neural_style_transfer"):
        (place / folder / "model").mkdir(parents=True)
    x = facula.zeros(1, 3, 224, 224)
    net, backbone = Residual().eval(), Backbone().eval()
    backbone.requires_grad_(False)
    batch = facula.export.Dim("batch", min=1, max=512)
    facula.export.save(facula.export.export(net, (x,)), basics / "pytorch_basics/model/resnet18_scriptmodule.pt")
    exported = facula.export.export(backbone, (facula.zeros(2, 3, 224, 224),), dynamic_shapes=({0: batch},))
    facula.export.save(exported, advanced / "image_captioning/model/encoder_cnn_backbone.pt")
    facula.save(vgg19().state_dict(), advanced / "neural_style_transfer/model/vgg19_layers.pt")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", type=Path)
    parser.add_argument("--mnist", type=int, default=600)
    parser.add_argument("--mnist-test", type=int, default=300)
    options = parser.parse_args()
    random = numpy.random.default_rng(3)
    facula.manual_seed(3)
    data = options.place / "data"
    for folder in ("mnist", "cifar10", "penntreebank"):
        (data / folder).mkdir(parents=True, exist_ok=True)
    for folder in (data, data / "mnist"):  # some programs look in the one, some in the other
        fixed = numpy.random.default_rng(4)
        write_mnist(folder, "train", options.mnist, fixed)
        write_mnist(folder, "t10k", options.mnist_test, fixed)
    write_cifar(data / "cifar10", random)
    text = [" ".join(random.choice(WORDS, 12)) for _ in range(600)]
    (data / "penntreebank" / "train.txt").write_text("\n".join(text) + "\n")
    for part, count in (("train", 2), ("val", 1)):
        for kind in range(10):
            names = [f"{i}.png" for i in range(count)]
            write_pictures(data / "imagenette2-160" / part / f"n{kind}", names, 160, random)
    write_pictures(data / "neural_style_transfer_images", ["content.png", "style.png"], 48, random)
    write_captions(data / "flickr_8k", random)
    write_models(options.place / "tutorials")
    return 0


if __name__ == "__main__":
    sys.exit(main())
