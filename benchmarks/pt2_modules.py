"""Export every module class of torch.nn, in both directions. This needs PyTorch in another Python.

    PYTHONPATH=. python benchmarks/pt2_modules.py --torch-python /where/python --json benchmarks/results/pt2_modules.json
    PYTHONPATH=. python benchmarks/pt2_modules.py --torch-python /where/python --only LSTM

Each library exports every module of `module_cases.py` twice, as it is (the training IR) and after `run_decompositions()` (the
core IR), and writes the file, inputs and results; the other one loads and runs it: PyTorch in Python, Facula in Python and,
without it, by facula-run. Results agree within 1e-5 of the largest. What cannot be exported at all is counted apart.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from module_cases import NOT_EXPORTED, cases

DIALECTS = ("training", "core")


def leaves(torch, value):
    """Return the tensors of a result, as arrays."""
    return [v.detach().numpy() for v in torch.utils._pytree.tree_leaves(value) if isinstance(v, torch.Tensor)]


def text_of(error):
    """Return a line about an exception."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def make(lib, folder, names):
    """Export the modules; return what went wrong, by name and dialect."""
    torch, export = importlib.import_module(lib), importlib.import_module(f"{lib}.export")
    table, failed = cases(torch), {}
    for name in names:
        try:
            torch.manual_seed(len(name))
            build, inputs, training = table[name]
            module = build().train(training)
            args = tuple(inputs())
            exported = export.export(module, args)
        except Exception as error:
            failed[name] = {dialect: text_of(error) for dialect in DIALECTS}
            continue
        stem = str(Path(folder) / name.replace(":", "_"))
        for dialect in DIALECTS:
            try:
                program = exported if dialect == "training" else exported.run_decompositions()
                export.save(program, f"{stem}.{dialect}.pt2")
                torch.manual_seed(7)
                with torch.no_grad():  # the program itself: PyTorch's core IR draws other numbers than the module
                    results = leaves(torch, program.module()(*args))
                arrays = {f"x{i}": v for i, v in enumerate(leaves(torch, args))}
                np.savez(f"{stem}.{dialect}.npz", **arrays, **{f"y{i}": v for i, v in enumerate(results)})
            except Exception as error:
                failed.setdefault(name, {})[dialect] = text_of(error)
    return failed


def difference(found, wanted):
    """Return the largest difference, over the largest result; an AssertionError for results of another kind."""
    assert len(found) == len(wanted), f"{len(found)} results, not {len(wanted)}"
    worst = 0.0
    for y, w in zip(found, wanted):
        assert y.shape == w.shape and y.dtype == w.dtype, f"{y.dtype}{y.shape}, not {w.dtype}{w.shape}"
        if w.size:
            worst = max(worst, float(np.abs(y.astype("f8") - w).max() / max(np.abs(w).max(), 1e-30)))
    assert worst <= 1e-5, f"a difference of {worst:.1e}"
    return worst


def check(lib, folder, names, dialect, run=None):
    """Run what the other library has written; return what is wrong, by name."""
    torch, export = importlib.import_module(lib), importlib.import_module(f"{lib}.export")
    failed = {}
    for name in names:
        stem = str(Path(folder) / name.replace(":", "_"))
        path = f"{stem}.{dialect}.pt2"
        data = np.load(f"{stem}.{dialect}.npz")
        given = [data[k] for k in data.files if k[0] == "x"]
        wanted = [data[k] for k in data.files if k[0] == "y"]
        try:
            if run:
                found = by_command(run, path, stem, given, len(wanted))
            else:
                program = export.load(path)
                leaves_in = [torch.from_numpy(v) for v in given]
                spec = program.call_spec.in_spec
                args, kwargs = torch.utils._pytree.tree_unflatten(leaves_in, spec)
                torch.manual_seed(7)
                with torch.no_grad():
                    found = leaves(torch, program.module()(*args, **kwargs))
            draws = run and name.endswith(":train") and "Norm" not in name
            if not draws:  # the command has a seed of its own
                difference(found, wanted)
        except Exception as error:
            failed[name] = text_of(error)
    return failed


def by_command(run, path, stem, given, count):
    """Return what facula-run writes."""
    command = [run, path, "--output", stem + ".out.npz"]
    for i, v in enumerate(given):
        np.save(f"{stem}.{i}.npy", v)
        command += ["--input", f"{stem}.{i}.npy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise RuntimeError((done.stderr or f"exit status {done.returncode}").strip())
    out = np.load(stem + ".out.npz")
    assert len(out.files) == count, f"{len(out.files)} results, not {count}"
    return [out[k] for k in out.files]


def facula_run():
    """Return the command that lies with the package."""
    import facula

    for folder in (Path(facula.__file__).parent / "bin", Path(os.path.realpath(facula._C.__file__)).parent):
        for found in (folder / "facula-run", folder / "bin" / "facula-run"):
            if found.exists():
                return str(found)
    raise FileNotFoundError("facula-run")


def serve(options):
    """Do one step, in the process of one library: read what to do, and write what came of it."""
    warnings.simplefilter("ignore")
    task = json.loads(sys.stdin.read())
    out, sys.stdout = sys.stdout, sys.stderr
    if options.serve == "names":
        torch = importlib.import_module("torch")
        known = {v.__name__ for v in vars(torch.nn).values() if isinstance(v, type) and issubclass(v, torch.nn.Module)}
        table = list(cases(torch))
        answer = [table, sorted(known - {n.split(":")[0] for n in table} - set(NOT_EXPORTED))]
    elif options.serve == "make":
        answer = make(task["lib"], task["folder"], task["names"])
    else:
        run = facula_run() if task.get("run") else None
        answer = check(task["lib"], task["folder"], task["names"], task["dialect"], run)
    json.dump(answer, out)


def ask(python, step, **task):
    """Return the answer of a process for one step."""
    done = subprocess.run(
        [python, "-W", "ignore", __file__, "--serve", step], input=json.dumps(task), capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{step} {task.get('lib')}: exit status {done.returncode}: {done.stderr[-1000:]}")
    return json.loads(done.stdout)


def both_ways(options, names, folder):
    """Return what failed, by way, dialect and name, and what could not be exported."""
    pythons = {"facula": sys.executable, "torch": options.torch_python}
    result = {}
    for writer, reader in (("torch", "facula"), ("facula", "torch")):
        place = Path(folder) / writer
        place.mkdir()
        not_made = ask(pythons[writer], "make", lib=writer, folder=str(place), names=names)
        for dialect in DIALECTS:
            made = [n for n in names if dialect not in not_made.get(n, {})]
            lacking = {n: f[dialect] for n, f in not_made.items() if dialect in f}
            ways = [("python", False), ("facula-run", True)] if reader == "facula" else [("python", False)]
            for way, run in ways:
                step = {"lib": reader, "folder": str(place), "names": made, "dialect": dialect, "run": run}
                failed = ask(pythons[reader], "check", **step)
                key = f"{writer} to {reader}, {dialect}, {way}"
                result[key] = {
                    "modules": len(names), "not exported": lacking, "agree": len(made) - len(failed), "fail": failed,
                }  # fmt: skip
                print(f"{key}: {len(made) - len(failed)} of {len(made)} agree, {len(lacking)} were not exported", flush=True)
                for name, why in [*failed.items(), *lacking.items()]:
                    print(f"    {name}: {why}", flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch-python", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument("--only", default="", help="modules with this in their names")
    parser.add_argument("--json", help="a file for the results")
    parser.add_argument("--keep", help="a folder for the files")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options)
    names, missing = ask(options.torch_python, "names")
    if missing:
        print("classes without a case:", *missing)
    names = [n for n in names if options.only in n]
    with tempfile.TemporaryDirectory() as folder:
        result = both_ways(options, names, options.keep or folder)
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
