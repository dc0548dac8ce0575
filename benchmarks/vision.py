"""Measure torchvision's compiled operators, or torchaudio's functions, on Facula and on PyTorch, by turns.

    python benchmarks/vision.py --facula PYTHON --torch PYTHON [--package torchaudio] [--threads 1] [--only roi] [--json FILE]

Both are interpreters of environments with torchvision, one with PyTorch, one with Facula. Each library has a process, which
computes a case when it is told to; they take turns, round by round. A row is the smallest time of each, of the forward pass and
of the backward pass, and the largest difference of results, relative to the largest result. With one thread it is the time of
the processor.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time

import audio_cases
import machine
import numpy as np


def boxes(count, width, height, size, seed=0):
    rng = np.random.default_rng(seed)
    corner = rng.uniform(0, 1, (count, 2)) * (width, height)
    return np.concatenate([corner, corner + rng.uniform(0.2, 1, (count, 2)) * size], 1).astype("float32")


def rois(count, images, width, height, size):
    numbers = np.random.default_rng(1).integers(0, images, (count, 1)).astype("float32")
    return np.concatenate([numbers, boxes(count, width, height, size)], 1)


def pixels(*shape):
    return np.random.default_rng(2).normal(size=shape).astype("float32")


def deform(channels, size, groups=1, offset_groups=1, masked=True):
    offset = np.random.default_rng(4).normal(size=(2, 18 * offset_groups, size, size)).astype("float32")
    mask = np.random.default_rng(5).uniform(size=(2, 9 * offset_groups, size, size)).astype("float32")
    weight = pixels(channels, channels // groups, 3, 3) * 0.05
    return [pixels(2, channels, size, size), offset, weight, mask if masked else None]


#: name -> (arrays, what is differentiated, function of torchvision.ops and the tensors)
CASES = {
    "nms 1000 boxes, few overlap": ([boxes(1000, 800, 800, 60), pixels(1000)], 0, lambda o, b, s: o.nms(b, s, 0.5)),
    "nms 4000 boxes, many overlap": ([boxes(4000, 200, 200, 120), pixels(4000)], 0, lambda o, b, s: o.nms(b, s, 0.5)),
    "nms 20000 boxes": ([boxes(20000, 800, 800, 60), pixels(20000)], 0, lambda o, b, s: o.nms(b, s, 0.5)),
    "box_iou rotated 300 x 300": (
        [np.concatenate([boxes(300, 90, 90, 60, seed), pixels(300, 1) * 90], 1) for seed in (0, 9)],
        0,
        lambda o, a, b: o.box_iou(a, b, fmt="cxcywhr"),
    ),
    "roi_align 7x7, 512 regions, 256 x 50 x 68": (
        [pixels(2, 256, 50, 68), rois(512, 2, 800, 600, 300)], 1, lambda o, x, r: o.roi_align(x, r, 7, 1 / 16, 2)
    ),
    "roi_align 7x7, 100 regions, 256 x 200 x 272": (
        [pixels(1, 256, 200, 272), rois(100, 1, 1000, 700, 100)], 1, lambda o, x, r: o.roi_align(x, r, 7, 1 / 4, 2)
    ),
    "roi_align 14x14, 64 regions, any number of points": (
        [pixels(1, 256, 50, 68), rois(64, 1, 700, 500, 300)], 1, lambda o, x, r: o.roi_align(x, r, 14, 1 / 16, 0, True)
    ),
    "roi_align 7x7, 4 regions, 256 x 200 x 272": (
        [pixels(1, 256, 200, 272), rois(4, 1, 1000, 700, 100)], 1, lambda o, x, r: o.roi_align(x, r, 7, 1 / 4, 2)
    ),
    "roi_align 7x7, 256 regions, 3 x 200 x 200": (
        [pixels(2, 3, 200, 200), rois(256, 2, 150, 150, 50)], 1, lambda o, x, r: o.roi_align(x, r, 7, 1.0, 2)
    ),
    "roi_pool 7x7, 256 regions": (
        [pixels(2, 256, 50, 68), rois(256, 2, 800, 600, 300)], 1, lambda o, x, r: o.roi_pool(x, r, 7, 1 / 16)
    ),
    "ps_roi_align 7x7, 256 regions": (
        [pixels(2, 490, 50, 68), rois(256, 2, 800, 600, 300)], 1, lambda o, x, r: o.ps_roi_align(x, r, 7, 1 / 16, 2)
    ),
    "ps_roi_pool 7x7, 256 regions": (
        [pixels(2, 490, 50, 68), rois(256, 2, 800, 600, 300)], 1, lambda o, x, r: o.ps_roi_pool(x, r, 7, 1 / 16)
    ),
    "deform_conv2d 64 channels, 56 x 56": (
        deform(64, 56), 4, lambda o, x, m, w, f: o.deform_conv2d(x, m, w, padding=1, mask=f)
    ),
    "deform_conv2d 256 channels, 28 x 28": (
        deform(256, 28), 4, lambda o, x, m, w, f: o.deform_conv2d(x, m, w, padding=1, mask=f)
    ),
    "deform_conv2d 64 channels, 4 and 2 groups, no mask": (
        deform(64, 56, 4, 2, False), 3, lambda o, x, m, w, f: o.deform_conv2d(x, m, w, padding=1)
    ),
}  # fmt: skip


def load():
    """Load torchvision.ops."""
    import torchvision.ops

    return torchvision.ops


#: cases, and what loads the module that they call
PACKAGES = {"torchvision": (CASES, load), "torchaudio": (audio_cases.CASES, audio_cases.load)}


def serve(library, package, threads):
    """Compute the cases whose names come in, and answer with seconds; "save" puts the last results into a file."""
    if library == "facula":
        from facula import compat

        compat.install()
    import torch

    cases, load = PACKAGES[package]
    functions = load()
    torch.set_num_threads(threads)
    clock = time.thread_time if threads == 1 else time.perf_counter
    answers, sys.stdout = sys.stdout, sys.stderr
    made = {}
    for line in sys.stdin:
        name, _, file = line.rstrip("\n").partition("\t")
        arrays, differentiable, function = cases[name]
        if name not in made:
            given = [None if a is None else torch.from_numpy(a) for a in arrays]
            made = {name: [t.requires_grad_() if i < differentiable else t for i, t in enumerate(given)]}
        given = made[name]
        began = clock()
        out = function(functions, *given)
        forward, backward, results = clock() - began, 0.0, list(out) if isinstance(out, tuple) else [out]
        if differentiable:
            gradient = torch.ones_like(out)
            wanted = [t for t in given[:differentiable] if t is not None]
            began = clock()
            results += torch.autograd.grad(out, wanted, gradient)
            backward = clock() - began
        if file:
            np.savez(file, *[t.detach().numpy() for t in results])
        print(forward, backward, file=answers, flush=True)


def ask(process, text):
    process.stdin.write(text + "\n")
    process.stdin.flush()
    return [float(word) for word in process.stdout.readline().split()]


def difference(name, processes):
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for library, process in processes.items():
            ask(process, f"{name}\t{folder}/{library}.npz")
            found.append(list(np.load(f"{folder}/{library}.npz").values()))
    worst = 0.0
    for a, b in zip(*found, strict=True):
        assert a.shape == b.shape, f"{name}: shapes {a.shape} and {b.shape}"
        worst = max(worst, float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)))
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--facula", help="interpreter with Facula")
    parser.add_argument("--torch", help="interpreter with PyTorch")
    parser.add_argument("--package", choices=PACKAGES, default="torchvision")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve, options.package, options.threads)
    more = ["--package", options.package, "--threads", str(options.threads)]
    processes = {
        library: subprocess.Popen(
            [getattr(options, library), __file__, "--serve", library, *more],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for library in ("facula", "torch")
    }  # fmt: skip
    rows = []
    for name in PACKAGES[options.package][0]:
        if options.only not in name:
            continue
        worst = difference(name, processes)
        times = {library: [] for library in processes}
        for _ in range(options.rounds):
            for library, process in processes.items():
                times[library].append(ask(process, name))
        best = {library: np.min(found, 0) * 1e3 for library, found in times.items()}
        ratios = [round(float(f / t), 3) if t else None for f, t in zip(best["facula"], best["torch"])]
        milliseconds = {library: [round(float(v), 3) for v in found] for library, found in best.items()}
        rows.append({"case": name, "milliseconds": milliseconds, "ratios": ratios, "difference": float(f"{worst:.2g}")})
        print(rows[-1], flush=True)
    for process in processes.values():
        process.stdin.close()
        process.wait()
    if options.json:
        facts = {"threads": options.threads, "machine": machine.describe(), "date": time.strftime("%Y-%m-%d"), "rows": rows}
        with open(options.json, "w") as file:
            json.dump(facts, file, indent=1)


if __name__ == "__main__":
    main()
