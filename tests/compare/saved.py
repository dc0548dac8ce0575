"""Which tensors each op keeps for its backward pass, seen from outside: those that must not change in place before it.

    python tests/compare/saved.py PARITY_FOLDER RESULTS.json                  # PyTorch
    python -m facula tests/compare/saved.py PARITY_FOLDER RESULTS.json        # Facula

The calls are those of the parity cases. For each differentiable one every result and every input is written to (with the
value that it has) between forward and backward; the results say for which of them the backward pass raises.
"""

import json
import sys
import warnings
from pathlib import Path


def probe(engine, torch, op, sample, place: str):
    """Run a sample forward, write to the tensor of a place (`o0` a result, `i1` an input), and run it backward."""
    args, kwargs, tensors = engine.build(op, sample, requires_grad=True)
    leaves = [t for t in tensors if t.requires_grad]
    copies = {id(t): t * 1 for t in leaves}

    def copied(node):
        if isinstance(node, torch.Tensor):
            return copies.get(id(node), node)
        if isinstance(node, (list, tuple)):
            return type(node)(map(copied, node))
        return {k: copied(v) for k, v in node.items()} if isinstance(node, dict) else node

    out = engine.resolve(sample["call"], op.record["kind"])(*copied(args), **copied(kwargs))
    results = engine.flatten(out)[1]
    target = None
    if place:
        target = results[int(place[1:])] if place[0] == "o" else copies.get(id(tensors[int(place[1:])]), tensors[int(place[1:])])
        with torch.no_grad():
            target.copy_(target.clone())
    roots = [r for r in results if r.requires_grad]
    torch.autograd.grad([(r.abs() if r.is_complex() else r).sum() for r in roots], leaves, allow_unused=True)
    return len(results), len(tensors)


def of_sample(engine, torch, op, sample):
    try:
        results, inputs = probe(engine, torch, op, sample, "")
    except Exception as error:
        return "fails: " + type(error).__name__
    kept = []
    for place in [f"o{i}" for i in range(min(results, 4))] + [f"i{i}" for i in range(min(inputs, 6))]:
        try:
            probe(engine, torch, op, sample, place)
        except RuntimeError:
            kept.append(place)
        except Exception as error:
            kept.append(place + type(error).__name__)
    return kept


def main(parity: str, target: str) -> None:
    sys.path.insert(0, parity)
    import goldenfile
    import torch
    from engine import Engine

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    engine, rows = Engine(torch), {}
    for path in sorted(Path(parity).glob("golden/*/*.npz")):
        op = goldenfile.OpFile.load(path)
        for sample in op.record["samples"]:
            if sample.get("grads"):
                rows[f"{path.stem} {sample['id']} {sample['call']}"] = of_sample(engine, torch, op, sample)
    Path(target).write_text(json.dumps(rows))


if __name__ == "__main__":
    main(*sys.argv[1:3])
