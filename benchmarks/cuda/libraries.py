"""Try what may fail first on a new machine: whether the device, NVIDIA's libraries and every kind of kernel work at all.

A part of everything.py. Each row is one call whose result is compared with the CPU's; a row that fails says why and does not
keep the others from running.
"""

from __future__ import annotations

import time

from parts import Rows


def calls(m) -> dict:
    """Return a call for each library and each kind of own kernel, by name."""
    functional, d = m.nn.functional, "cuda"

    def draw(*shape, dtype=None):
        return m.rand(*shape, dtype=dtype or m.float32) + 0.5

    x, y, square = draw(64, 96), draw(96, 64), draw(32, 32) + 32 * m.eye(32)
    image, filters = draw(2, 8, 20, 20), draw(16, 8, 3, 3)
    half = draw(2, 4, 64, 64).to(m.bfloat16)
    layer = m.nn.LSTM(16, 32, 2)
    there = m.nn.LSTM(16, 32, 2)
    there.load_state_dict(layer.state_dict())
    there.cuda()
    sequence = draw(5, 3, 16)
    return {
        "copies": lambda: (x.to(d).cpu(), x),
        "own kernel (NVRTC)": lambda: ((x.to(d) * 2 + 1).cpu(), x * 2 + 1),
        "own kernel bfloat16": lambda: (half.to(d).exp().cpu(), half.exp()),
        "own reduction": lambda: (x.to(d).sum(1).cpu(), x.sum(1)),
        "own soft-max": lambda: (functional.softmax(x.to(d), 1).cpu(), functional.softmax(x, 1)),
        "pinned copy": lambda: (x.pin_memory().to(d, non_blocking=True).cpu(), x),
        "cuBLAS": lambda: ((x.to(d) @ y.to(d)).cpu(), x @ y),
        "cuDNN convolution": lambda: (functional.conv2d(image.to(d), filters.to(d)).cpu(), functional.conv2d(image, filters)),
        "cuDNN LSTM": lambda: (there(sequence.to(d))[0].detach().cpu(), layer(sequence)[0].detach()),
        "attention bfloat16": lambda: (
            functional.scaled_dot_product_attention(*[half.to(d)] * 3).cpu(),
            functional.scaled_dot_product_attention(*[half] * 3),
        ),
        "cuFFT": lambda: (m.fft.fft(x.to(d)).cpu(), m.fft.fft(x)),
        "cuSOLVER": lambda: (m.linalg.inv(square.to(d)).cpu(), m.linalg.inv(square)),
        "graph": lambda: captured(m),
        "caching allocator": lambda: (m.empty(1 << 20, device=d).fill_(3.0)[:4].cpu(), m.full((4,), 3.0)),
    }


def captured(m):
    """Capture a step as a graph, and replay it."""
    x = m.ones(1000, device="cuda")
    for _ in range(2):
        y = x * 2 + 1
    m.cuda.synchronize()
    graph = m.cuda.CUDAGraph()
    with m.cuda.graph(graph):
        y = x * 2 + 1
    x.fill_(3.0)
    graph.replay()
    return y.cpu(), m.full((1000,), 7.0)


def apart(m, got, wanted) -> float:
    """Return the largest difference, as a share of the largest value."""
    got, wanted = (t.to(m.complex128) for t in (got, wanted))
    return ((got - wanted).abs().max() / wanted.abs().max()).item()


def libraries(m, tiny: bool) -> dict:
    found = Rows()
    if m.__name__ == "facula":
        found["which"] = {name: str(path) for name, path in m.cuda.libraries().items()}
    m.manual_seed(0)
    for name, call in calls(m).items():
        start = time.perf_counter()
        try:
            difference = apart(m, *call())
            row = {"first_ms": (time.perf_counter() - start) * 1e3, "difference": difference}
            if not difference < 0.02:  # bfloat16 and TF32
                row["error"] = f"differs from the CPU's result by {difference:.3g} of its largest value"
        except Exception as error:  # noqa: BLE001 - one that fails is reported
            row = {"error": f"{type(error).__name__}: {error}"[:400]}
        found[name] = row
    return found
