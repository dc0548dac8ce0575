"""Define the six models of benchmarks/memory_budget.py, in a size for measuring and in a small one for tests.

`build(m, name, small)` gives the model, a function that computes the loss of one batch, and the optimizer.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

MODELS = Path(__file__).parent / "models"
sys.path.append(str(MODELS))
from common import integers, normal  # noqa: E402

# Constants of a file in benchmarks/models, and sizes of its batch: items, and length or pixels.
SIZES = {
    "gpt": ({"BATCH": 24}, {"LAYERS": 6, "WIDTH": 32, "HEADS": 4, "CONTEXT": 64, "VOCABULARY": 32, "BATCH": 8}),
    "bert": (
        {"layers": 6, "width": 256, "words": 4096, "batch": 32, "length": 128},
        {"layers": 4, "width": 32, "words": 32, "batch": 6, "length": 64},
    ),
    "resnet50": (
        {"batch": 8, "pixels": 224},
        {"STAGES": ((16, 6, 1), (16, 4, 2)), "classes": 10, "batch": 4, "pixels": 48},
    ),
    "mobilenet_v2": (
        {"batch": 16, "pixels": 224},
        {"STAGES": ((1, 16, 1, 1, 3), (4, 16, 4, 1, 3), (4, 24, 2, 2, 3)), "classes": 10, "batch": 2, "pixels": 48},
    ),
    "unet": ({"batch": 8, "pixels": 160}, {"WIDTHS": (8, 16, 24), "batch": 2, "pixels": 64}),
    "lstm": ({"width": 256, "words": 1000, "batch": 32, "length": 64}, {"width": 96, "words": 16, "batch": 32, "length": 24}),
}
NAMES = tuple(SIZES)


def build(m, name: str, small: bool = False):
    sizes = dict(SIZES[name][small])
    if name in ("bert", "lstm"):
        model, loss = {"bert": encoder, "lstm": cells}[name](m, **sizes)
        return model, loss, m.optim.AdamW(model.parameters(), lr=1e-4)
    module = copy_of(name)
    for constant in filter(str.isupper, list(sizes)):
        setattr(module, constant, sizes.pop(constant))
    model = module.network(m)
    if name == "gpt":
        return model, text_loss(m, module, model), m.optim.AdamW(model.parameters(), lr=1e-3)
    classes = sizes.get("classes", 1000)
    if classes != 1000:
        model = with_head(m, model, classes)
    batch, pixels = sizes["batch"], sizes["pixels"]
    images = normal(m, batch, 3, pixels, pixels)
    labels = integers(m, 2, batch, pixels, pixels) if name == "unet" else integers(m, classes, batch)
    optimizer = m.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)
    return model, lambda: m.nn.functional.cross_entropy(model(images), labels), optimizer


def copy_of(name: str):
    """Return a module of benchmarks/models of its own: its constants may be changed."""
    spec = importlib.util.spec_from_file_location(name, MODELS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_loss(m, module, model):
    words = module.VOCABULARY
    text = integers(m, words, module.BATCH, module.CONTEXT + 1)
    x, y = text[:, :-1].contiguous(), text[:, 1:].contiguous()
    return lambda: m.nn.functional.cross_entropy(model(x).view(-1, words), y.view(-1))


def with_head(m, model, classes: int):
    """Return the blocks of a network for images, and a small head in the place of its own."""
    nn = m.nn
    blocks = list(model)
    while isinstance(blocks[-1], (nn.Linear, nn.Dropout, nn.Flatten, nn.AdaptiveAvgPool2d)):
        blocks.pop()
    if isinstance(blocks[-3], nn.Conv2d):  # from the last block to many channels
        del blocks[-3:]
    with m.no_grad():
        channels = nn.Sequential(*blocks).eval()(m.zeros(1, 3, 32, 32)).shape[1]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(channels, classes)).train()


def encoder(m, layers: int, width: int, words: int, batch: int, length: int):
    """Build an encoder like BERT: embeddings, layers with the norm last and dropout, a head over the vocabulary."""
    nn = m.nn

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places, self.norm = nn.Embedding(words, width), nn.Embedding(length, width), nn.LayerNorm(width)
            self.drop = nn.Dropout(0.1)
            layer = [nn.TransformerEncoderLayer(width, 4, 4 * width, 0.1, "gelu", batch_first=True) for _ in range(layers)]
            self.layers, self.head = nn.ModuleList(layer), nn.Linear(width, words)

        def forward(self, x):
            y = self.drop(self.norm(self.words(x) + self.places(m.arange(x.shape[1]))))
            for layer in self.layers:
                y = layer(y)
            return self.head(y)

    model, x = Encoder(), integers(m, words, batch, length)
    return model, lambda: m.nn.functional.cross_entropy(model(x).view(-1, words), x.view(-1))


def cells(m, width: int, words: int, batch: int, length: int):
    """Return two layers of LSTM cells, which the program steps through one word at a time."""
    nn = m.nn

    class Cells(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.a, self.b = nn.Embedding(words, width), nn.LSTMCell(width, width), nn.LSTMCell(width, width)
            self.head = nn.Linear(width, words)

        def forward(self, x):
            y, a, b, outs = self.words(x), None, None, []
            for step in range(x.shape[1]):
                a = self.a(y[:, step], a)
                b = self.b(a[0], b)
                outs.append(b[0])
            return self.head(m.stack(outs, 1))

    model, x = Cells(), integers(m, words, batch, length)
    return model, lambda: m.nn.functional.cross_entropy(model(x).view(-1, words), x.view(-1))
