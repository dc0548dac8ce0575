"""Run the examples under Facula and under PyTorch: CPU time of the whole process, and how far their first losses agree.

    python benchmarks/examples.py [--repeat 3] [--only TEXT] [--json FILE]

Needs PyTorch beside Facula. Every run is a process of its own with one thread, by turns; for PyTorch's, the name facula means
torch. A time is the minimum of user and system time, importing included; only the ratio means anything, and it is PyTorch's
over Facula's. Losses are what `backward` was called on; the count is how many of the first twenty agree to 4 digits.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.abc
import importlib.util
import json
import os
import resource
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
RUNS = {
    "digits": ["--epochs", "3", "--no-plot"],
    "gan": ["--steps", "100", "--no-plot"],
    "char_gpt": ["--steps", "40", "--length", "20"],
    "lstm_tagger": ["--steps", "100"],
    "custom_function": [],
    "reinforce": ["--updates", "30"],
}


class Renamed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Make `facula.x` the module `torch.x`."""

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name.split(".")[0] == "facula" else None

    def create_module(self, spec):
        module = importlib.import_module("torch" + spec.name.removeprefix("facula"))
        self.own_spec = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = self.own_spec


def run_here(library: str, name: str) -> None:
    """Run an example in this process; its last line is a JSON object."""
    if library == "torch":
        sys.meta_path.insert(0, Renamed())
    m = importlib.import_module(library)
    m.set_num_threads(1)
    losses = []
    backward = m.Tensor.backward

    def noting_backward(self, *args, **kwargs):
        if len(losses) < 20:
            losses.append(self.item())
        return backward(self, *args, **kwargs)

    m.Tensor.backward = noting_backward
    sys.path.insert(0, str(EXAMPLES))
    sys.argv = [name, *RUNS[name]]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"seconds": used.ru_utime + used.ru_stime, "losses": losses}))


def run_apart(library: str, name: str) -> dict:
    command = [sys.executable, __file__, "--apart", library, "--only", name]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    out = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    return json.loads(out.splitlines()[-1])


def agreeing(ours: list[float], theirs: list[float]) -> int:
    """Return how many losses agree to 4 digits, from the first on."""
    pairs = list(zip(ours, theirs))
    return next((i for i, (a, b) in enumerate(pairs) if abs(a - b) > 5e-5 * max(1, abs(b))), len(pairs))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="", help="examples whose name contains this")
    parser.add_argument("--json", help="write the figures here")
    parser.add_argument("--apart", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.apart:
        return run_here(options.apart, options.only)
    rows = []
    for name in RUNS:
        if options.only not in name:
            continue
        runs: dict[str, list[dict]] = {"facula": [], "torch": []}
        for _ in range(options.repeat):
            for library, done in runs.items():
                done.append(run_apart(library, name))
        seconds = {library: min(run["seconds"] for run in done) for library, done in runs.items()}
        ratio = seconds["torch"] / seconds["facula"]
        digits = agreeing(runs["facula"][0]["losses"], runs["torch"][0]["losses"])
        rows.append({"name": " ".join([name, *RUNS[name]]), "seconds": seconds, "ratio": ratio, "losses_equal": digits})
        times = f"facula {seconds['facula']:6.2f} s  torch {seconds['torch']:6.2f} s"
        print(f"{name:16} {times}  ratio {ratio:5.2f}  first losses equal to 4 digits: {digits}", flush=True)
    if options.json:
        from machine import describe

        with open(options.json, "w") as file:
            json.dump({"machine": describe(), "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
