"""Compare torchvision's six detection models on Facula and on PyTorch: losses of training steps, and detections after
them.

    python benchmarks/detection.py --facula PYTHON --torch PYTHON [--dtype float64] [--steps 3] [--json FILE]

Both are interpreters of environments with torchvision, one with PyTorch, one with Facula. Every model runs in a process of its
own in each, with the same weights, made with NumPy, the same images and targets, and the same seed: the samplers of boxes draw
with `torch.randperm`. Losses are compared relatively, boxes one by one in their order: with the largest difference in pixels
where labels and number agree. In float32 two scores that are almost equal may change places; float64 shows that nothing else
differs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import zlib

import machine
import numpy as np

MODELS = {
    "fasterrcnn_resnet50_fpn": {"box_score_thresh": 0.1},
    "maskrcnn_resnet50_fpn": {"box_score_thresh": 0.1},
    "keypointrcnn_resnet50_fpn": {"box_score_thresh": 0.1},
    "retinanet_resnet50_fpn": {"score_thresh": 0.1},
    "fcos_resnet50_fpn": {"score_thresh": 0.1},
    "ssd300_vgg16": {"score_thresh": 0.1},
}
CLASSES, KEYPOINTS = 5, 4
#: by dtype: relative for losses, pixels for boxes, absolute for scores, masks and keypoints' scores. PyTorch rounds a binary
#: cross entropy to the dtype of its targets, which are float32 in torchvision, also where its input is float64
TOLERANCE = {
    "float32": {"losses": 2e-3, "boxes": 0.5, "scores": 2e-3},
    "float64": {"losses": 1e-7, "boxes": 1e-5, "scores": 1e-8},
}


def set_weights(model, torch):
    """Set weights from NumPy by name: normal, by fan-in, so that activations keep their size."""
    for name, tensor in model.state_dict().items():
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        shape = tuple(tensor.shape)
        if not tensor.is_floating_point():
            continue
        if name.endswith("running_var"):
            values = rng.uniform(0.9, 1.1, shape)
        elif len(shape) >= 2:
            values = rng.normal(size=shape) * (1.5 / np.prod(shape[1:])) ** 0.5
        elif name.endswith("weight") and len(shape) == 1:
            values = rng.uniform(0.4, 0.6, shape)
        else:
            values = rng.normal(size=shape) * 0.02
        tensor.copy_(torch.from_numpy(np.asarray(values, dtype="float64")).to(tensor.dtype))


def scenes(torch, dtype):
    """Return two images and what is in them."""
    rng = np.random.default_rng(5)
    images, targets = [], []
    for height, width in ((120, 150), (140, 110)):
        corner = rng.uniform(0, 0.5, (4, 2)) * (width, height)
        boxes = np.concatenate([corner, corner + rng.uniform(0.2, 0.45, (4, 2)) * (width, height)], 1)
        image = rng.uniform(0, 1, (3, height, width))
        masks = np.zeros((4, height, width), "uint8")
        for mask, (x1, y1, x2, y2) in zip(masks, boxes.astype(int)):
            mask[y1:y2, x1:x2] = 1
            image[:, y1:y2, x1:x2] *= 0.5
        places = boxes[:, None, :2] + rng.uniform(0.1, 0.9, (4, KEYPOINTS, 2)) * (boxes[:, None, 2:] - boxes[:, None, :2])
        images.append(torch.from_numpy(image).to(dtype))
        targets.append({
            "boxes": torch.from_numpy(boxes).to(dtype),
            "labels": torch.from_numpy(rng.integers(1, CLASSES, 4)),
            "masks": torch.from_numpy(masks),
            "keypoints": torch.from_numpy(np.concatenate([places, np.ones((4, KEYPOINTS, 1))], 2)).float(),  # no others
        })  # fmt: skip
    return images, targets


def run(name, library, options):
    """Train and predict; return arrays by name."""
    if library == "facula":
        from facula import compat

        compat.install()
    import torch
    import torchvision

    torch.set_num_threads(options.threads)
    dtype = getattr(torch, options.dtype)
    torch.set_default_dtype(dtype)
    more = dict(MODELS[name])
    if "ssd" not in name:
        more.update(min_size=128, max_size=160)
    if "keypoint" in name:
        more["num_keypoints"] = KEYPOINTS
    classes = 2 if "keypoint" in name else CLASSES
    model = torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=classes, **more)
    with torch.no_grad():
        set_weights(model, torch)
    images, targets = scenes(torch, dtype)
    if classes == 2:
        for target in targets:
            target["labels"] = torch.ones_like(target["labels"])
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-4, momentum=0.9)
    torch.manual_seed(3)
    found, spent = {}, []
    for step in range(options.steps):
        began = time.process_time()
        losses = model(images, targets)
        optimizer.zero_grad()
        sum(losses.values()).backward()
        optimizer.step()
        spent.append(time.process_time() - began)
        found.update({f"losses.{step}.{key}": loss.detach().numpy() for key, loss in losses.items()})
    model.eval()
    began = time.process_time()
    with torch.no_grad():
        results = model(images)
    found["seconds"] = np.array([min(spent), time.process_time() - began])
    for i, result in enumerate(results):
        found.update({f"found.{i}.{key}": value.numpy() for key, value in result.items()})
    return found


def compare(facula, torch, tolerance):
    """Return the largest differences by kind, the number of boxes, and whether all is within the tolerance."""
    worst, boxes, same = {"losses": 0.0}, 0, set(facula) == set(torch)
    for key in sorted(set(facula) & set(torch)):
        kind, _, what = key.partition(".")
        a, b = facula[key].astype("f8"), torch[key].astype("f8")
        if kind == "losses":
            worst["losses"] = max(worst["losses"], float(abs(a - b) / max(abs(b), 1e-3)))
        elif kind == "found":
            what = what.partition(".")[2]
            boxes += len(b) if what == "boxes" else 0
            same = same and a.shape == b.shape
            if a.shape == b.shape:
                worst[what] = max(worst.get(what, 0.0), float(np.abs(a - b).max(initial=0)))
    bound = {"losses": "losses", "boxes": "boxes", "keypoints": "boxes", "labels": "scores"}
    agree = same and all(value <= tolerance[bound.get(what, "scores")] for what, value in worst.items())
    ratios = [float(r) for r in facula["seconds"] / torch["seconds"]]
    return {"agree": bool(agree), "boxes": boxes, **{k: float(f"{v:.2g}") for k, v in worst.items()},
            "train_ratio": round(ratios[0], 3), "predict_ratio": round(ratios[1], 3)}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--facula", help="interpreter with Facula")
    parser.add_argument("--torch", help="interpreter with PyTorch")
    parser.add_argument("--dtype", choices=TOLERANCE, default="float32")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--json")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)  # model, library, file
    options = parser.parse_args()
    if options.run:
        name, library, file = options.run
        np.savez(file, **run(name, library, options))
        return
    rows = {}
    for name in MODELS:
        if options.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            arrays = []
            for library in ("facula", "torch"):
                file = f"{folder}/{library}.npz"
                command = [getattr(options, library), __file__, "--dtype", options.dtype, "--steps", str(options.steps)]
                subprocess.run([*command, "--threads", str(options.threads), "--run", name, library, file], check=True)
                arrays.append(dict(np.load(file)))
        rows[name] = compare(*arrays, TOLERANCE[options.dtype])
        print(name, rows[name], flush=True)
    if options.json:
        facts = {"dtype": options.dtype, "steps": options.steps, "threads": options.threads,
                 "tolerance": TOLERANCE[options.dtype], "machine": machine.describe(),
                 "date": time.strftime("%Y-%m-%d"), "models": rows}  # fmt: skip
        with open(options.json, "w") as file:
            json.dump(facts, file, indent=1)
    sys.exit(not all(row["agree"] for row in rows.values()))


if __name__ == "__main__":
    main()
