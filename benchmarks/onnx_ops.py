"""Export calls of ops to ONNX one by one, and compare the results of onnxruntime with those of Facula.

    python benchmarks/onnx_ops.py --calls FOLDER [--opsets 18 21] [--only softmax] [--json benchmarks/results/onnx_ops.json]

FOLDER holds a file `<op>.npz` for every op, with two byte arrays: `calls`, the JSON of the op's recorded calls, and `data`,
the elements of their tensors (PyTorch's own test inputs, in the form in which they were recorded to compare the libraries). Of
every op that is a function of the top level, a method of Tensor or a function of nn.functional some calls are taken, of
float32 where there are such (--dtypes). A call's tensors are the inputs of the model, everything else is part of it. An op
agrees if onnx.checker (with full_check) accepts all of its models and onnxruntime gives the dtypes, shapes and values of Facula
for all of them; of ops that draw random numbers, and of those that leave memory as it is, dtypes and shapes; of singular
vectors, whose signs are free, the values, the products and that they are orthogonal. What is bfloat16 is compared as float32.
Where results of float32 differ, those of Facula for the same numbers in float64 decide: a file may be the more exact one.

Needs onnx and onnxruntime. Runs of one opset are a process, which is begun anew after a call that ends it.
"""

import argparse
import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
RELATIVE, ABSOLUTE = 1e-4, 1e-5
DTYPES = ("float32", "int64", "bool", "complex64")
#: what these give is not determined by what they are given
UNDETERMINED = """bernoulli cauchy empty empty_like empty_permuted empty_strided exponential geometric log_normal multinomial
    new_empty new_empty_strided normal normal-in_place normal-number_mean rand_like randint randint_like randn randn_like
    uniform nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d
    nn.functional.feature_alpha_dropout-with_train nn.functional.rrelu resize_ resize_as_
    nn.functional.multi_head_attention_forward""".split()

#: what they take is in order, and no longer when it is repeated
SORTED = ("bucketize", "searchsorted")


def counted(name):
    """Return whether an op is of the top level, of Tensor or of nn.functional."""
    return "." not in name or name.startswith("nn.functional.")


def _complex(sample):
    return any(t["dtype"].startswith("complex") for t in sample["tensors"])


class Calls:
    """Build the recorded calls of one op from Facula's tensors."""

    def __init__(self, facula, path, dtypes=DTYPES):
        file = np.load(path)
        self.facula, self.dtypes, self.data = facula, dtypes, file["data"].tobytes()
        self.record = json.loads(file["calls"].tobytes().decode())

    def chosen(self, most):
        """Return calls of one dtype, the first of which there are such, spread over those that there are."""
        good = [s for s in self.record["samples"] if not s.get("raises")]
        for dtype in self.dtypes:
            found = [s for s in good if s["dtype"] == dtype and (dtype.startswith("complex") or not _complex(s))]
            if found:
                return [found[i] for i in sorted({round(i * (len(found) - 1) / max(most - 1, 1)) for i in range(most)})]
        return []

    def arguments(self, sample):
        tensors = [self._tensor(spec) for spec in sample["tensors"]]
        args = [self._value(a, tensors) for a in sample["args"]]
        return args, {name: self._value(a, tensors) for name, a in sample["kwargs"].items()}, tensors

    def function(self, call, kind):
        home = self.facula
        if kind == "function":
            try:
                for part in call.split("."):
                    home = getattr(home, part)
                return home
            except AttributeError:
                pass
        if kind == "property":
            return lambda tensor: getattr(tensor, call)
        return lambda tensor, *args, **kwargs: getattr(tensor, call)(*args, **kwargs)

    def _tensor(self, spec):
        wide = {"bfloat16": "uint16", "complex32": "complex64"}.get(spec["dtype"], spec["dtype"])
        shape = spec["shape"]
        stride = spec.get("stride") or [int(np.prod(shape[d + 1 :])) for d in range(len(shape))]
        reach = 0 if 0 in shape else 1 + sum((n - 1) * step for n, step in zip(shape, stride))
        flat = np.frombuffer(self.data, np.dtype(wide), reach, spec["at"]).copy()
        if spec["dtype"] == "bfloat16":
            flat = (flat.astype("u4") << 16).view("f4")
        array = np.lib.stride_tricks.as_strided(flat, shape, [s * flat.itemsize for s in stride])
        tensor = self.facula.from_numpy(array)
        return tensor if wide == spec["dtype"] else tensor.to(getattr(self.facula, spec["dtype"]))

    def _value(self, node, tensors):
        if isinstance(node, list):
            return [self._value(item, tensors) for item in node]
        if not isinstance(node, dict):
            return node
        tag, value = next(iter(node.items()))
        if tag == "t":
            return tensors[value]
        if tag == "tuple":
            return tuple(self._value(item, tensors) for item in value)
        if tag == "dict":
            return {key: self._value(item, tensors) for key, item in value.items()}
        if tag == "slice":
            return slice(*(self._value(item, tensors) for item in value))
        if tag == "ellipsis":
            return Ellipsis
        if tag == "complex":
            return complex(*value)
        if tag == "object":
            found = self.facula
            for part in value.split("."):
                found = getattr(found, part)
            return found(**{key: self._value(item, tensors) for key, item in node["fields"].items()})
        return getattr(self.facula, value)


def model_of(facula, function, args, kwargs, tensors):
    """Return the call as a module that takes its tensors."""
    from facula.utils import _pytree as pytree

    leaves, spec = pytree.tree_flatten((args, kwargs))
    places = [next((k for k, t in enumerate(tensors) if t is leaf), None) for leaf in leaves]

    class Call(facula.nn.Module):
        def forward(self, *given):
            args, kwargs = pytree.tree_unflatten([leaf if k is None else given[k] for leaf, k in zip(leaves, places)], spec)
            return pytree.tree_map(shown, function(*args, **kwargs))

    shown = lambda r: r.float() if isinstance(r, facula.Tensor) and r.dtype == facula.bfloat16 else r
    return Call().eval()


def session_of(program):
    """Return onnxruntime's session of a model that onnx.checker accepts."""
    import onnx
    import onnxruntime

    data = program.serialize()
    onnx.checker.check_model(onnx.load_model_from_string(data), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def compared(facula, module, tensors, opset, values):
    """Return the largest difference, over the bound; raise where the model is refused or something else differs."""
    with facula.no_grad():
        program = facula.onnx.export(module, tuple(t.detach().clone() for t in tensors), opset_version=opset)
    return run(facula, session_of(program), module, tensors, values)


class Fixed(Exception):
    """Report a program that cannot be exported with sizes that vary, or does not accept other ones."""


def longer(facula, tensors, length, times):
    return [facula.cat([t] * times) if t.dim() and t.shape[0] == length else t for t in tensors]


def varied(facula, module, tensors, opset, values):
    """Return the same of one model for three lengths of the first dimension."""
    length = next((t.shape[0] for t in tensors if t.dim() and t.shape[0] > 1), 0)
    if not length:
        raise Fixed
    shapes = tuple({0: facula.export.Dim("n")} if t.dim() and t.shape[0] == length else None for t in tensors)
    with facula.no_grad():
        try:
            for times in (2, 3):
                module(*longer(facula, [t.clone() for t in tensors], length, times))
            exported = facula.export.export(module, tuple(t.clone() for t in tensors), dynamic_shapes=(shapes,))
        except Exception as error:
            raise Fixed(str(error)) from None
        program = facula.onnx.export(exported, opset_version=opset)
    session = session_of(program)
    return max(run(facula, session, module, longer(facula, tensors, length, k), values) for k in (1, 2, 3))


def products(found):
    """Return, of singular vectors, whose signs are free, what they are made of."""
    if len(found) != 3:
        return found
    u, s, v = found
    n, squared = s.shape[-1], lambda m: np.swapaxes(m, -1, -2) @ m
    return [s, (u[..., :n] * s[..., None, :]) @ np.swapaxes(v[..., :n], -1, -2), squared(u), squared(v)]


def run(facula, session, module, tensors, values):
    from facula.onnx._program import real_parts
    from facula.utils import _pytree as pytree

    fresh = lambda: [t.detach().clone() for t in tensors]
    with facula.no_grad():
        wanted = pytree.tree_leaves(module(*fresh()))
    names = [i.name for i in session.get_inputs()]
    given = [real_parts(t).numpy() for t in fresh()]
    if len(names) != len(given):
        raise AssertionError(f"{len(given)} tensors and {len(names)} inputs")
    found = session.run(None, dict(zip(names, given)))
    wanted = [real_parts(w) if isinstance(w, facula.Tensor) else w for w in wanted if w is not None]
    if len(found) != len(wanted):
        raise AssertionError(f"{len(wanted)} results and {len(found)} outputs")
    worst = 0.0
    if values is products:
        wanted, found = products([w.numpy() for w in wanted]), products(found)
        wanted = [facula.from_numpy(np.ascontiguousarray(w)) for w in wanted]
    for want, got in zip(wanted, found):
        if isinstance(want, facula.Tensor):
            want = want.detach().numpy()
        else:
            want = np.asarray(want, np.int64 if isinstance(want, facula.Size) else None)
        if want.shape != got.shape or (want.dtype != got.dtype and isinstance(want, np.ndarray)):
            raise AssertionError(f"{want.dtype}{list(want.shape)}, got {got.dtype}{list(got.shape)}")
        if values:
            worst = max(worst, difference(want, got))
    if worst > 1 and values is True and {t.dtype for t in tensors} == {facula.float32}:
        with facula.no_grad():
            wanted = pytree.tree_leaves(module(*(t.double() for t in fresh())))
        exact = [w.float().numpy() for w in wanted if isinstance(w, facula.Tensor) and w.dtype == facula.float64]
        if len(exact) == len(found):
            worst = min(worst, max(map(difference, exact, found)))
    return worst


def difference(want, got):
    """Return the largest difference as a multiple of what is allowed; infinite where one is NaN and the other is not."""
    if not want.size:
        return 0.0
    if want.dtype.kind not in "fc":
        return 0.0 if np.array_equal(want, got) else float("inf")
    with np.errstate(all="ignore"):
        a, b = want.astype("c16"), got.astype("c16")
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        over = np.abs(a - b) / (ABSOLUTE + RELATIVE * np.abs(a))
    over = np.where(same, 0.0, np.where(np.isfinite(over), over, np.inf))
    return float(over.max())


def serve(options, check):
    """Answer a line for every name of an op that it is given."""
    warnings.simplefilter("ignore")
    import onnxruntime

    import facula

    onnxruntime.set_default_logger_severity(4)
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        calls = Calls(facula, Path(options.calls) / f"{line.strip()}.npz", options.dtypes)
        print(json.dumps(of_op(facula, calls, options.serve, options.most, check)), file=answers, flush=True)


def of_op(facula, calls, opset, most, check):
    record = calls.record
    values = products if record["op"] in ("svd", "svd_lowrank", "pca_lowrank") else record["op"] not in UNDETERMINED
    results, worst, why = [], 0.0, None
    if check is varied and record["op"] in SORTED:
        return None
    for sample in calls.chosen(most):
        facula.manual_seed(0)
        try:
            args, kwargs, tensors = calls.arguments(sample)
            function = calls.function(sample.get("call", record["call"]), sample.get("kind", record["kind"]))
            over = check(facula, model_of(facula, function, args, kwargs, tensors), tensors, opset, values)
            results.append("agrees" if over <= 1 else "differs")
            worst = max(worst, over)
            if over > 1:
                why = why or f"{over:.3g} times the bound ({describe(sample)})"
        except Fixed:
            continue
        except AssertionError as error:
            results.append("differs")
            why = why or f"{error} ({describe(sample)})"
        except Exception as error:
            results.append("raises")
            text = " ".join(str(error).replace(f"{ROOT}/", "").split())[:240]
            why = why or f"{type(error).__name__}: {text} ({describe(sample)})"
    if not results:
        return None
    word = next((w for w in ("raises", "differs") if w in results), "agrees")
    return {"result": word, "calls": len(results), "agree": results.count("agrees"), "worst": round(worst, 4), "why": why}


def describe(sample):
    text = json.dumps([sample["args"], sample["kwargs"]])
    return f"{[t['shape'] for t in sample['tensors']]} {text}"[:200]


class Server:
    """Run the process of one opset, and start another one after it has died."""

    def __init__(self, options, opset):
        self.command = [sys.executable, "-W", "ignore", __file__, "--calls", options.calls, "--most", str(options.most)]
        self.command += ["--serve", str(opset), "--dtypes", *options.dtypes, *["--vary"] * options.vary]
        self.process, self.trace = None, options.trace

    def ask(self, name):
        if self.process is None or self.process.poll() is not None:
            quiet = None if self.trace else subprocess.DEVNULL
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet, text=True
            )
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        return {"result": "raises", "calls": 0, "agree": 0, "worst": 0.0, "why": "the process died"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", required=True, help="the folder of recorded calls")
    parser.add_argument("--opsets", type=int, nargs="*", default=[18, 21])
    parser.add_argument("--only", nargs="*", help="names of ops")
    parser.add_argument("--most", type=int, default=6, help="calls of each op")
    parser.add_argument("--dtypes", nargs="*", default=DTYPES, help="of the calls: the first of which an op has some")
    parser.add_argument("--vary", action="store_true", help="one model for three lengths of the first dimension")
    parser.add_argument("--json", help="a file for the results")
    parser.add_argument("--trace", action="store_true", help="show what the processes print")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options, varied if options.vary else compared)
    names = options.only or sorted(p.stem for p in Path(options.calls).glob("*.npz") if counted(p.stem))
    table = {}
    for opset in options.opsets:
        server = Server(options, opset)
        for name in names:
            found = server.ask(name)
            if found is not None:
                table.setdefault(name, {})[str(opset)] = found
                if found["result"] != "agrees":
                    print(f"{opset} {name:40} {found['result']} {found['agree']}/{found['calls']}: {found['why']}", flush=True)
    totals = {str(o): summary(table, str(o)) for o in options.opsets}
    for opset, total in totals.items():
        print(f"opset {opset}: {total}")
    if options.json:
        write(Path(options.json), totals, table)


def write(path, totals, table):
    """Write a line for every op."""
    head = {"rule": f"|difference| <= {ABSOLUTE} + {RELATIVE} * |value|", "totals": totals}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in table.items())
    path.write_text(f'{json.dumps(head)[:-1]}, "ops": {{\n{lines}\n}}}}\n')


def summary(table, opset):
    found = [row[opset] for row in table.values() if opset in row]
    words = {w: sum(f["result"] == w for f in found) for w in ("agrees", "differs", "raises")}
    return {"ops": len(found), **words, "some of the calls agree": sum(0 < f["agree"] < f["calls"] for f in found)}


if __name__ == "__main__":
    main()
