"""Define what the models share: data and weights that are the same in both libraries, and the products that a model
computes.

A model file has NAME, ITEMS and UNIT (the items of one step), `network(m)`, `training(m, model)`, which returns a
function that does one step and returns the loss, and maybe `inference(m, model)`, which returns a function that answers
once. `m` is the library, facula or torch: no code here or there depends on which.
"""

from __future__ import annotations

import numpy


def normal(m, *shape: int, seed: int = 1):
    """Return a float32 tensor of normal numbers that NumPy draws, so that every library gets the same ones."""
    return m.from_numpy(numpy.random.default_rng(seed).standard_normal(shape, numpy.float32))


def integers(m, below: int, *shape: int, seed: int = 2):
    return m.from_numpy(numpy.random.default_rng(seed).integers(0, below, shape))


def fill(m, model, seed: int = 0) -> None:
    """Write weights that NumPy draws: scaled by the inputs of each output; biases 0; what scales a norm stays 1."""
    generator = numpy.random.default_rng(seed)
    with m.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                inputs = parameter.numel() // parameter.shape[0]
                values = generator.standard_normal(tuple(parameter.shape), numpy.float32)
                values *= inputs**-0.5
                parameter.copy_(m.from_numpy(values))
            elif "bias" in name:
                parameter.zero_()


def inverted_residuals(m, stages, activation, weighing=lambda wide, inputs: []):
    """Return the networks of MobileNet's kind. A block widens its input, filters it channel by channel, weighs the channels and
    narrows them; it is added to its input where the shapes allow. `stages`: expansion, channels, blocks, stride of the
    first, window."""
    nn = m.nn

    def normed(inputs, outputs, kernel=1, stride=1, groups=1):
        conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
        return [conv, nn.BatchNorm2d(outputs)]

    class InvertedResidual(nn.Module):
        def __init__(self, inputs, outputs, stride, expansion, kernel):
            super().__init__()
            wide = inputs * expansion
            layers = [] if expansion == 1 else [*normed(inputs, wide), activation(inplace=True)]
            layers += [*normed(wide, wide, kernel, stride, wide), activation(inplace=True), *weighing(wide, inputs)]
            self.layers = nn.Sequential(*layers, *normed(wide, outputs))
            self.adds = stride == 1 and inputs == outputs

        def forward(self, x):
            return x + self.layers(x) if self.adds else self.layers(x)

    blocks, channels = [*normed(3, 32, 3, 2), activation(inplace=True)], 32
    for expansion, width, count, stride, kernel in stages:
        for i in range(count):
            blocks.append(InvertedResidual(channels, width, stride if i == 0 else 1, expansion, kernel))
            channels = width
    head = [*normed(channels, 1280), activation(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*blocks, *head, nn.Dropout(0.2), nn.Linear(1280, 1000))


def optimized(m, optimizer, loss_of):
    """Return the step that every training loop repeats."""

    def step():
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss

    return step


def classify(m, model, batch: int, rate: float = 1e-3):
    """Train on images of 224 x 224 in a thousand classes, SGD with momentum."""
    images, labels = normal(m, batch, 3, 224, 224), integers(m, 1000, batch)
    optimizer = m.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=1e-4)
    return optimized(m, optimizer, lambda: m.nn.functional.cross_entropy(model(images), labels))


def look_at(m, model):
    """Return the answer to one image."""
    image = normal(m, 1, 3, 224, 224)
    model.eval()

    def answer():
        with m.inference_mode():
            return model(image)

    return answer


# ---- products


def multiply_adds(module, inputs, output) -> int:
    """Return the multiply-adds of one call of a module, 0 for what multiplies nothing; a module that multiplies by itself tells
    with `own_products`."""
    kind = type(module).__name__
    if hasattr(module, "own_products"):
        return module.own_products(inputs, output)
    if kind == "Linear":
        return output.numel() * module.in_features
    if kind == "Conv2d":
        return output.numel() * (module.weight.numel() // module.out_channels)
    if kind == "ConvTranspose2d":
        return inputs[0].numel() * (module.weight.numel() // module.in_channels)
    if kind == "LSTM":
        weights = sum(p.numel() for p in module.parameters() if p.dim() > 1)
        return inputs[0].numel() // module.input_size * weights
    if kind == "LSTMCell":
        return inputs[0].numel() // module.input_size * 4 * module.hidden_size * (module.input_size + module.hidden_size)
    return 0


def count_products(model, call, backward: bool) -> float:
    """Return the floating-point operations of products and convolutions while `call` runs: forward and, where asked, both
    gradients."""
    total = 0

    def add(module, inputs, output):
        nonlocal total
        operand = inputs[0] if inputs else None
        passes = 1 if not backward else 3 if getattr(operand, "requires_grad", False) else 2
        total += 2 * passes * multiply_adds(module, inputs, output)

    handles = [module.register_forward_hook(add) for module in model.modules()]
    call()
    for handle in handles:
        handle.remove()
    return float(total)
