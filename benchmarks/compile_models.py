"""Measure compiled models of timm and transformers: the cost of a first call, whether any call is slower, and the
memory of a step.

    python benchmarks/compile_models.py                     ten models of each package, whole training steps
    python benchmarks/compile_models.py --only timm:resnet10t --calls 40 --json FILE

Every eager step has a compiled one beside it, in turns, on the same weights and inputs. Times are processor time, in
milliseconds. A model whose package is not installed is named and left out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import facula  # noqa: E402

facula.compat.install()
from model_zoo import built, prepare  # noqa: E402

MODELS = """timm:resnet10t timm:vit_tiny_patch16_224 timm:mixer_s32_224 timm:convnext_atto timm:mobilenetv4_conv_small
    timm:ghostnet_100 timm:edgenext_xx_small timm:poolformer_s12 timm:xcit_nano_12_p16_224 timm:regnetz_005 transformers:bert
    transformers:distilbert transformers:gpt2 transformers:llama transformers:t5 transformers:roberta transformers:albert
    transformers:electra transformers:opt transformers:qwen2""".split()
FIRST = 20  # calls in which a compiled function finds out what is faster


def total(result):
    """Return the sum of all floating point tensors of a model's result."""
    if isinstance(result, facula.Tensor):
        return result.float().sum() if result.is_floating_point() else 0
    parts = result.values() if hasattr(result, "values") else result if isinstance(result, (list, tuple)) else ()
    return sum(total(part) for part in parts)


def step_of(call, parameters, inputs):
    def step():
        for parameter in parameters:
            parameter.grad = None
        loss = total(call(*inputs))
        loss.backward()
        return loss

    return step


def milliseconds(step):
    begin = time.process_time()
    step()
    return (time.process_time() - begin) * 1e3


def peak(step):
    """Return the bytes by which a step goes above what is held before it."""
    for _ in range(2):
        facula.cpu.reset_peak_memory_stats()
        before = facula.cpu.memory_allocated()
        step()
        most = facula.cpu.max_memory_allocated() - before
    return most


def measure(name, calls):
    prepare(name)
    model, inputs = built(facula, name)
    model.eval()  # no numbers are drawn: steps are equal
    parameters = list(model.parameters())
    eager = step_of(model, parameters, inputs)
    for _ in range(3):
        eager()
    compiled_model = facula.compile(model)
    compiled = step_of(compiled_model, parameters, inputs)
    before = [milliseconds(eager) for _ in range(3)]
    first = milliseconds(compiled)
    pairs = [(milliseconds(eager), milliseconds(compiled)) for _ in range(calls)]
    early, late = pairs[: FIRST - 1], pairs[FIRST:]
    equal = [p.grad.clone() for p in parameters if p.grad is not None]
    eager()
    same = all(facula.equal(a, b) for a, b in zip(equal, (p.grad for p in parameters if p.grad is not None), strict=True))
    # neighbors in time are compared: the machine's speed changes slower than that
    return {
        "eager_ms": statistics.median(e for e, _ in pairs),
        "first_extra_ms": first - min(before),
        "first": first / min(before),
        "first_20": statistics.median(e / c for e, c in early),
        "later": statistics.median(e / c for e, c in late),
        "peak": peak(compiled) / peak(eager),
        "equal": same,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json")
    args = parser.parse_args()
    facula.set_num_threads(args.threads)
    rows = {}
    heads = ("eager ms", "first, times", "first, + ms", "first 20", "later", "peak", "equal")
    print(f"{'':36s}" + "".join(f"{head:>13s}" for head in heads))
    for name in args.only.split(",") if args.only else MODELS:
        try:
            row = rows[name] = measure(name, args.calls)
        except ModuleNotFoundError as error:
            print(f"{name:36s}{error}")
            continue
        keys = ("eager_ms", "first", "first_extra_ms", "first_20", "later", "peak")
        print(f"{name:36s}" + "".join(f"{row[key]:13.3f}" for key in keys) + f"{row['equal']!s:>13s}", flush=True)
    if args.json:
        Path(args.json).write_text(json.dumps({"threads": args.threads, "models": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
