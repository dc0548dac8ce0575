"""Compile and run public programs in C++ with Facula and with libtorch: time, memory, and what they print.

    python -m benchmarks.cxx_programs --examples E --tutorials T --include DIR ... --link ARGUMENT ...
        [--data DIR] [--libtorch DIR [--compare]] [--only NAME] [--seconds 60] [--json FILE]

E is a checkout of pytorch/examples and T one of prabhuomkar/pytorch-cpp; sources are used as they are. `--include`
names the folders of headers (Facula's, and those of stb and argparse, which the programs include), `--link` what a
program is linked with. With `--libtorch`, each program is compiled against that too. Programs look for their data
under `../../../../data` or `./data`; `--data` is what they find there (`benchmarks/cxx_data.py` makes some), and the
`tutorials` beside it, with models, under `../../../../tutorials`. A program that trains for longer than `--seconds` is
ended; what it had printed counts. With `--compare`, it also runs with libtorch, on the same data and with equal seeds, and
how many lines are the same is told; libtorch reads MNIST only with all its images.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# name -> root, folder, whether it needs the tutorials' image files
PROGRAMS = {
    "autograd": ("examples", "cpp/autograd", False),
    "regression": ("examples", "cpp/regression", False),
    "mnist": ("examples", "cpp/mnist", False),
    "dcgan": ("examples", "cpp/dcgan", False),
    "linear_regression": ("tutorials", "tutorials/basics/linear_regression", False),
    "logistic_regression": ("tutorials", "tutorials/basics/logistic_regression", False),
    "feedforward": ("tutorials", "tutorials/basics/feedforward_neural_network", False),
    "pytorch_basics": ("tutorials", "tutorials/basics/pytorch_basics", False),
    "blitz_tensors": ("tutorials", "tutorials/popular/blitz/tensors", False),
    "blitz_autograd": ("tutorials", "tutorials/popular/blitz/autograd", False),
    "blitz_networks": ("tutorials", "tutorials/popular/blitz/neural_networks", False),
    "blitz_classifier": ("tutorials", "tutorials/popular/blitz/training_a_classifier", False),
    "resnet": ("tutorials", "tutorials/intermediate/deep_residual_network", False),
    "rnn": ("tutorials", "tutorials/intermediate/recurrent_neural_network", False),
    "bi_rnn": ("tutorials", "tutorials/intermediate/bidirectional_recurrent_neural_network", False),
    "cnn": ("tutorials", "tutorials/intermediate/convolutional_neural_network", True),
    "language_model": ("tutorials", "tutorials/intermediate/language_model", False),
    "gan": ("tutorials", "tutorials/advanced/generative_adversarial_network", True),
    "vae": ("tutorials", "tutorials/advanced/variational_autoencoder", True),
    "style_transfer": ("tutorials", "tutorials/advanced/neural_style_transfer", True),
    "image_captioning": ("tutorials", "tutorials/advanced/image_captioning", True),
}
LIBTORCH = ["include", "include/torch/csrc/api/include"]


def measured(command: list[str]) -> dict:
    """Return the seconds of processor time and the largest memory of the compiler and what it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    errors = process.stderr.read()
    _, status, own = os.wait4(process.pid, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "ok": status == 0,
        "wall_s": round(time.perf_counter() - start, 2),
        "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2),
        "peak_mb": round(own.ru_maxrss / 1024),
        "errors": [line for line in errors.splitlines() if "error" in line][:5],
    }


def compile_all(sources: list[Path], includes: list[str], folder: Path) -> tuple[dict, list[str]]:
    """Compile every source by itself; figures are those of the source that took longest."""
    worst, objects = None, []
    for source in sources:
        output = str(folder / (source.stem + ".o"))
        command = ["g++", "-std=c++20", "-O2", "-w", *[f"-I{i}" for i in includes], "-c", str(source), "-o", output]
        figures = measured(command)
        objects.append(output)
        if worst is None or not figures["ok"] or (worst["ok"] and figures["cpu_s"] > worst["cpu_s"]):
            worst = figures
    return worst, objects


def link(objects: list[str], arguments: list[str], program: Path) -> dict:
    command = ["g++", "-o", str(program), *objects, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return {"ok": done.returncode == 0, "errors": done.stderr.splitlines()[:5]}


def run(program: Path, place: Path, seconds: float) -> dict:
    """Run in a folder from which the data is where the program looks."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "output").mkdir(exist_ok=True)
    start = time.perf_counter()
    process = subprocess.Popen(
        ["timeout", "-s", "INT", str(seconds), str(program)], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    text = process.stdout.read().decode(errors="replace")
    code = process.wait()
    ended = code in (0, 124, 130, -2)
    return {"ok": ended, "finished": code == 0, "wall_s": round(time.perf_counter() - start, 2), "text": text}


SEED = "#include <torch/torch.h>\nnamespace { const bool seeded = (torch::manual_seed(7), true); }\n"


def run_seeded(objects: list[str], includes: list[str], arguments: list[str], folder: Path, place: Path, seconds: float) -> str:
    """Return what a program prints that is linked with a seed: libtorch's is another one at each start."""
    source = folder / "seed.cpp"
    source.write_text(SEED)
    figures, seed = compile_all([source], includes, folder)
    if not figures["ok"] or not link([*objects, *seed], arguments, folder / "seeded")["ok"]:
        raise SystemExit(f"{folder}: it cannot be linked with a seed")
    return run(folder / "seeded", place, seconds)["text"]


def compared(ours: str, theirs: str) -> dict:
    """Return how many of the lines that both print are the same, and the first that is not; a last line may be cut."""
    pairs = list(zip(ours.splitlines(), theirs.splitlines(), strict=False))
    other = [[a[:120], b[:120]] for a, b in pairs if a != b]
    return {"lines": len(pairs), "same": len(pairs) - len(other), "first_different": other[:1]}


def link_to(path: Path, target: Path) -> None:
    if target.exists() and not path.exists():
        path.symlink_to(target)


def sources_of(root: Path) -> list[Path]:
    return sorted(root.glob("*.cpp")) + sorted((root / "src").glob("*.cpp"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=Path)
    parser.add_argument("--tutorials", type=Path)
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--link", action="append", default=[])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--libtorch", type=Path)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--keep", type=Path, help="where programs and what they print are kept")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp())
    folder = folder.resolve()
    place = folder / "z" / "a" / "b" / "c" / "build"  # programs look for data four levels up, and one five
    if options.data:
        place.mkdir(parents=True, exist_ok=True)
        models = options.data.resolve().parent / "tutorials"
        for where in (folder, folder / "z", place):
            link_to(where / "data", options.data.resolve())
            link_to(where / "tutorials", models)
    results = {}
    for name, (kind, path, images) in PROGRAMS.items():
        root = getattr(options, kind)
        if root is None or (options.only and not re.search(options.only, name)):
            continue
        sources = sources_of(root / path)
        includes = [*options.include, str(root / path / "include"), str(root / path)]
        if images:
            sources += sources_of(root / "utils/image_io")
            includes.append(str(root / "utils/image_io/include"))
        (folder / name).mkdir(parents=True, exist_ok=True)
        compiled, objects = compile_all(sources, includes, folder / name)
        entry = {"sources": len(sources), "compile": compiled}
        if compiled["ok"]:
            entry["link"] = link(objects, options.link, folder / name / name)
            if entry["link"]["ok"]:
                ran = run(folder / name / name, place, options.seconds)
                (folder / name / "output.txt").write_text(ran.pop("text"))
                entry["run"] = ran
        if options.libtorch:
            theirs = [str(options.libtorch / part) for part in LIBTORCH]
            others = [i for i in includes if not (Path(i) / "torch" / "torch.h").exists()]
            (folder / name / "libtorch").mkdir(exist_ok=True)
            entry["libtorch"], their_objects = compile_all(sources, theirs + others, folder / name / "libtorch")
            if options.compare and "run" in entry and entry["libtorch"]["ok"]:
                library = options.libtorch / "lib"
                arguments = [f"-L{library}", f"-Wl,-rpath,{library}", "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10"]
                ours = run_seeded(objects, includes, options.link, folder / name, place, options.seconds)
                there = folder / name / "libtorch"
                other = run_seeded(their_objects, theirs + others, arguments, there, place, options.seconds)
                entry["compared"] = compared(ours, other)
            if entry["libtorch"]["ok"] and compiled["ok"]:
                entry["ratio"] = round(entry["libtorch"]["cpu_s"] / compiled["cpu_s"], 1)
        results[name] = entry
        print(json.dumps({name: entry}), flush=True)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0 if all(e["compile"]["ok"] and e.get("run", {}).get("ok") for e in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
