"""Exports models of torchvision, timm and transformers (random weights) to ONNX and compares with onnxruntime.

python .ci/onnx_compare.py [--opset 18] [--models resnet18 timm:vit_tiny_patch16_224 transformers:bert] [--limit 1e-4]

Needs the packages onnx, onnxruntime, torchvision, timm, transformers in the environment; they run on Facula.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import facula.compat

facula.compat.install()

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
import torch  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
from model_zoo import NAMES, built  # noqa: E402


def difference(model, args, opset):
    """The largest difference between model and onnxruntime, relative to 1 + the value, and the number of nodes."""
    with torch.no_grad():
        program = torch.onnx.export(model, args, opset_version=opset)
        wanted = [r for r in pytree.tree_leaves(model(*args)) if isinstance(r, torch.Tensor)]
    data = program.serialize()
    onnx.checker.check_model(onnx.load_model_from_string(data), full_check=True)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    got = session.run(None, {i.name: a.numpy() for i, a in zip(session.get_inputs(), args)})
    worst = 0.0
    for w, g in zip(wanted, got):
        w = w.numpy()
        if w.shape != g.shape or w.dtype != g.dtype:
            raise AssertionError(f"expected {w.dtype}{list(w.shape)}, got {g.dtype}{list(g.shape)}")
        worst = max(worst, float(np.max(np.abs(w.astype("f8") - g) / (1 + np.abs(w)), initial=0)))
    return worst, len(program.graph.nodes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--opset", type=int, default=18)
    parser.add_argument("--limit", type=float, default=1e-4)
    parser.add_argument("--models", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    onnxruntime.set_default_logger_severity(4)
    good, names = 0, options.models or NAMES
    for name in names:
        start = time.time()
        try:
            model, args = built(torch, name)
            worst, nodes = difference(model.eval(), args, options.opset)
            good += worst <= options.limit
            word = "ok  " if worst <= options.limit else "DIFF"
            print(f"{word} {name}: {worst:.1e}, {nodes} nodes, {time.time() - start:.0f} s", flush=True)
        except Exception as error:
            print(f"FAIL {name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    print(f"opset {options.opset}: {good} of {len(names)} models agree within {options.limit:g}")


if __name__ == "__main__":
    main()
