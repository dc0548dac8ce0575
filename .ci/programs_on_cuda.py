"""Runs programs that others wrote for PyTorch with their device set to CUDA: on the emulated device, in small sizes.

    python .ci/programs_on_cuda.py --programs FOLDER [NAME ...]

FOLDER holds run.py, which lays programs out from snapshots of their repositories ($FACULA_MIRROR) and runs them; the entries
here replace those of its programs.toml. Programs that ask for an accelerator, or have an option for the device, run as they
are; `edits` sets the device of the others. A program passes when it ends, prints what is expected, and has launched kernels.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = {"repo": "pytorch/examples", "path": ["{stubs}"]}
LOSS = {"find": r"[Ll]oss:? +\[?(\d+\.\d+)", "max": 1e3}
WORDS = {f"{{data}}/{part}.txt": f"word_language_model/data/words/{part}.txt" for part in ("train", "valid", "test")}
WORD_MODEL = ("main.py --accel --data data/words --emsize 16 --nhid 16 --nlayers 1 --batch_size 4 --bptt 8 --epochs 1"
              " --log-interval 1")  # fmt: skip
MAKEMORE = ("makemore.py --device cuda --max-steps 3 --num-workers 0 --n-layer 1 --n-embd 16 --n-embd2 16 --n-head 2"
            " --batch-size 8")  # fmt: skip

PROGRAMS = {
    "mnist": {
        **EXAMPLES, "only": ["mnist/*"], "cwd": "mnist",
        "run": "main.py --epochs 1 --batch-size 10 --test-batch-size 10 --log-interval 1", "expect": [LOSS],
    },
    "mnist-rnn": {
        **EXAMPLES, "only": ["mnist_rnn/*"], "cwd": "mnist_rnn",
        "run": "main.py --accel --epochs 1 --batch-size 10 --test-batch-size 10 --log-interval 1", "expect": [LOSS],
    },
    "mnist-forward-forward": {
        **EXAMPLES, "only": ["mnist_forward_forward/*"], "cwd": "mnist_forward_forward",
        "run": "main.py --epochs 2 --train_size 20 --test_size 10", "expect": [{"find": "rain error: +([0-9.]+)", "max": 1}],
    },
    "vae": {
        **EXAMPLES, "only": ["vae/*"], "cwd": "vae", "place": {"{data}/keep": "vae/results/keep"},
        "run": "main.py --epochs 1 --batch-size 10 --log-interval 1",
        "expect": [{"find": r"Test set loss: ([\d.]+)", "max": 700}],
    },
    "dcgan": {
        **EXAMPLES, "only": ["dcgan/*"], "cwd": "dcgan", "env": {"FACULA_TP_FAKE_SIZE": "4"},
        "run": "main.py --accel --dataset fake --batchSize 2 --ngf 4 --ndf 4 --niter 1 --workers 1 --manualSeed 3",
        "expect": [{"find": r"Loss_D: ([\d.]+)", "max": 100}],
    },
    "word-lm-lstm": {
        **EXAMPLES, "only": ["word_language_model/*.py"], "cwd": "word_language_model", "place": WORDS,
        "run": [f"{WORD_MODEL} --model LSTM --tied", "generate.py --accel --data data/words --checkpoint model.pt --words 5"],
        "expect": [{"find": r"test loss +([\d.]+)", "max": 20}],
    },
    "word-lm-transformer": {
        **EXAMPLES, "only": ["word_language_model/*.py"], "cwd": "word_language_model", "place": WORDS,
        "run": f"{WORD_MODEL} --model Transformer --lr 1", "expect": [{"find": r"test loss +([\d.]+)", "max": 20}],
    },
    "regression": {
        **EXAMPLES, "only": ["regression/*"], "cwd": "regression", "run": "main.py",
        "expect": [{"find": r"Loss: ([\d.]+) after", "max": 0.001}],
        "edits": [("regression/main.py", "import torch\n", "import torch\ntorch.set_default_device('cuda')\n")],
    },
    "makemore": {
        "repo": "karpathy/makemore", "place": {"{data}/names.txt": "names.txt"},
        "run": [f"{MAKEMORE} --type {kind} -o out-{kind}" for kind in ("transformer", "bigram", "mlp", "rnn", "gru", "bow")],
        "expect": [{"find": r"step 0 \| loss ([\d.]+)", "max": 10, "times": 6, "each": True}],
    },
    "nanogpt": {
        "repo": "karpathy/nanoGPT", "only": ["*.py", "config/*", "data/shakespeare_char/*"],
        "place": {"{data}/train.txt": "data/shakespeare_char/input.txt"},
        "run": ["data/shakespeare_char/prepare.py",
                "train.py config/train_shakespeare_char.py --device=cuda --compile=False --eval_interval=2 --eval_iters=1"
                " --log_interval=1 --block_size=8 --batch_size=2 --n_layer=1 --n_head=2 --n_embd=16 --max_iters=3"
                " --gradient_accumulation_steps=1 --always_save_checkpoint=True",
                "sample.py --out_dir=out-shakespeare-char --device=cuda --num_samples=1 --max_new_tokens=3"],
        "expect": [{"find": r"val loss ([\d.]+)", "max": 10}],
        # the text is there, and made of letters
        "edits": [("data/shakespeare_char/prepare.py", "import requests", ""), ("sample.py", "import tiktoken", "")],
    },
    "two-layer-nets": {
        "repo": "jcjohnson/pytorch-examples",
        "run": "{drivers}/run_each.py tensor/two_layer_net_tensor.py autograd/two_layer_net_autograd.py"
               " autograd/two_layer_net_custom_function.py nn/two_layer_net_nn.py nn/two_layer_net_optim.py"
               " nn/two_layer_net_module.py nn/dynamic_net.py",
        "expect": [{"find": r"^3 ([\d.e+-]+)", "times": 7, "each": True, "max": 1e9}, {"find": "every script ended"}],
        "edits": [("*/*.py", "range(500)", "range(4)"), ("*/*.py", "1000, 100, 10", "50, 20, 10"),
                  ("*/*.py", "device = torch.device('cpu')", "device = torch.device('cuda')"),
                  ("nn/[td]*o*[dtm]*.py", "import torch\n", "import torch\ntorch.set_default_device('cuda')\n")],
    },
}  # fmt: skip


def make_data(folder: Path) -> None:
    """Make ten kinds of noisy pictures, and a text of few words."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, (10, 28, 28)) * 200
    parts = {}
    for part, count in (("train", 20), ("test", 10)):
        labels = np.arange(count) % 10
        parts[f"{part}_labels"] = labels.astype(np.uint8)
        parts[f"{part}_images"] = (kinds[labels] + rng.integers(0, 50, (count, 28, 28))).astype(np.uint8)
    np.savez(folder / "digits28.npz", **parts)
    words = ["sun", "moon", "star", "sea", "sand", "is", "was", "red", "blue", "and"]
    for part, lines in (("train", 40), ("valid", 10), ("test", 10)):
        (folder / f"{part}.txt").write_text("".join(" ".join(rng.choice(words, 6)) + "\n" for _ in range(lines)))
    names = ["".join(rng.choice(list("abcdef"), rng.integers(2, 5))) for _ in range(1200)]
    (folder / "names.txt").write_text("\n".join(names))
    (folder / "keep").write_text("")


def load_runner(folder: Path, work: Path) -> SimpleNamespace:
    os.environ["FACULA_TP_WORK"] = str(work)
    spec = importlib.util.spec_from_file_location("third_party_run", folder / "run.py")
    runner = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runner)
    runner.PYTHON["facula"] = sys.executable
    lay_out, fill = runner.lay_out, runner.fill

    def lay_out_edited(program):
        place = lay_out(program)
        for pattern, old, new in program.get("edits", []):
            for file in Path(place).glob(pattern):
                file.write_text(file.read_text().replace(old, new, 1))
        return place

    runner.lay_out = lay_out_edited
    runner.fill = lambda text, program, place: fill(text.replace("{data}", str(work / "data")), program, place)
    return runner


def run(runner, name: str, work: Path, cache: str) -> bool:
    log = work / f"{name}.kernels"
    program = {"name": name, "limit": 600, **PROGRAMS[name]}
    program["path"] = [str(ROOT), *program.get("path", [])]
    device = {"FACULA_CUDA": "emulated", "FACULA_CACHE_DIR": cache, "CUDA_VISIBLE_DEVICES": "0"}
    program["env"] = {**device, "FACULA_CUDA_LOG_KERNELS": str(log), "FACULA_TP_DATA": str(work / "data"),
                      **program.get("env", {})}  # fmt: skip
    result = runner.run_one(program, "facula", SimpleNamespace(threads=1, slower=1.0, record=False, keep=False))
    kernels = len(set(log.read_text().splitlines())) if log.exists() else 0
    good = result["ok"] and kernels > 0
    said = result["why"] or result["seen"]
    print(f"{'pass' if good else 'FAIL'} {name:24} {result['secs']:6.1f} s, {kernels:4} kernels  {said}", flush=True)
    if not good and Path(result["log"]).is_file():
        lines = Path(result["log"]).read_text(errors="replace").splitlines()
        print("    " + "\n    ".join(lines[-12:]))
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, required=True, help="the folder of run.py")
    parser.add_argument("--cache", help="keeps compiled kernels between runs")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PROGRAMS))
    args = parser.parse_args()
    if unknown := set(args.names) - set(PROGRAMS):
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    start = time.time()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "data").mkdir()
        make_data(work / "data")
        runner = load_runner(args.programs, work)
        good = [run(runner, name, work, args.cache or str(work / "cache")) for name in args.names or PROGRAMS]
    print(f"{sum(good)} of {len(good)} programs run on CUDA, {time.time() - start:.0f} s")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
