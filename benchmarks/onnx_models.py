"""Export the sixty models of model_zoo.py (random weights) to ONNX, and compare with onnxruntime.

    python benchmarks/onnx_models.py [--opsets 18 21] [--models resnet18 timm:pit_ti_224] [--vary] [--json FILE]

A model agrees if onnx.checker (with full_check) accepts the file and all results of onnxruntime have the dtypes and shapes of
Facula's, with differences of at most 1e-4 of the largest value. With --vary the number of examples in the file is free, and
three are given where the model was exported with two. Every model has a process of its own, one after another. Needs
the packages onnx, onnxruntime, torchvision, timm, transformers in the environment; they run on Facula.
"""

import argparse
import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
from model_zoo import NAMES, built

LIMIT = 1e-4


def difference(torch, model, args, opset, vary):
    """Return the largest difference between model and onnxruntime, relative to the largest value, and the number of nodes."""
    import onnx
    import onnxruntime
    from torch.utils import _pytree as pytree

    with torch.no_grad():
        shapes = tuple({0: "batch"} for _ in args) if vary else None
        program = torch.onnx.export(model, args, opset_version=opset, dynamic_shapes=shapes)
        if vary:
            args = tuple(torch.cat([a, a.flip(0)[:1]]) for a in args)
        wanted = [r for r in pytree.tree_leaves(model(*args)) if isinstance(r, torch.Tensor)]
    data = program.serialize()
    onnx.checker.check_model(onnx.load_model_from_string(data), full_check=True)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    got = session.run(None, {i.name: a.numpy() for i, a in zip(session.get_inputs(), args)})
    if len(got) != len(wanted):
        raise AssertionError(f"{len(wanted)} results, got {len(got)}")
    worst = 0.0
    for w, g in zip(wanted, got):
        w = w.numpy()
        if w.shape != g.shape or w.dtype != g.dtype:
            raise AssertionError(f"expected {w.dtype}{list(w.shape)}, got {g.dtype}{list(g.shape)}")
        away = np.max(np.abs(w.astype("f8") - g), initial=0)
        worst = max(worst, float(away / max(np.max(np.abs(w), initial=0), 1e-30)))
    return worst, len(program.graph.nodes)


def one(name, opsets, vary):
    """Print what the opsets gave, as JSON."""
    warnings.simplefilter("ignore")
    import facula.compat

    facula.compat.install()
    import onnxruntime
    import torch

    onnxruntime.set_default_logger_severity(4)
    model, args = built(torch, name)
    model.eval()
    results = {}
    for opset in opsets:
        try:
            worst, nodes = difference(torch, model, args, opset, vary)
            results[opset] = {"agrees": worst <= LIMIT, "difference": float(f"{worst:.1e}"), "nodes": nodes}
        except Exception as error:
            results[opset] = {"agrees": False, "error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
    print(json.dumps(results))


def of_process(options, name):
    command = [sys.executable, "-W", "ignore", __file__, "--one", name, "--opsets", *map(str, options.opsets)]
    command += ["--vary"] * options.vary
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.limit, check=False)
    except subprocess.TimeoutExpired:
        return {o: {"agrees": False, "error": f"more than {options.limit} s"} for o in options.opsets}
    lines = done.stdout.strip().splitlines()
    if done.returncode == 0 and lines:
        return json.loads(lines[-1])
    why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return {o: {"agrees": False, "error": why[:300]} for o in options.opsets}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opsets", type=int, nargs="*", default=[18, 21])
    parser.add_argument("--models", nargs="*", help="their names")
    parser.add_argument("--vary", action="store_true", help="a number of examples that varies")
    parser.add_argument("--limit", type=int, default=600, help="seconds of one model")
    parser.add_argument("--json", help="a file to add the results to")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return one(options.one, options.opsets, options.vary)
    path = Path(options.json) if options.json else None
    known = json.loads(path.read_text())["models"] if path and path.exists() else {}
    for name in options.models or NAMES:
        found = {str(opset): result for opset, result in of_process(options, name).items()}
        known.setdefault(name, {}).update(found)
        for opset, result in found.items():
            print(f"{'ok  ' if result['agrees'] else 'FAIL'} {name} at {opset}: {result}", flush=True)
        if path:
            write(path, known, options.vary)
    print(totals(known))


def totals(known):
    opsets = sorted({opset for found in known.values() for opset in found})
    good = lambda opset: sum(found[opset]["agrees"] for found in known.values() if opset in found)
    return {opset: f"{good(opset)} of {sum(opset in found for found in known.values())}" for opset in opsets}


def write(path, known, vary):
    rule = f"largest |difference| <= {LIMIT} * largest |value| of a result, onnx.checker with full_check"
    command = "python benchmarks/onnx_models.py" + " --vary" * vary
    head = json.dumps({"command": command, "rule": rule, "agree": totals(known)})
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found)}" for name, found in known.items())
    path.write_text(f'{head[:-1]}, "models": {{\n{lines}\n}}}}\n')


if __name__ == "__main__":
    main()
