"""The layers of the Python package: which file imports which, and which imports are known to run up."""

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# layer -> its modules, from the lowest up (ARCHITECTURE.md, "Layers of the Python package"). A module belongs to the
# longest of these names that it begins with; PyTorch's private names in facula/compat/private belong to compat.
LAYERS = {
    "names": """
        _C _shared compat.placeholders compat.not_here compat.names compat.no_device version torch_version types __future__
        """,
    "core": """
        _tensor _operators functions _serialization serialization storage random return_types overrides special fft linalg
        sparse nested signal masked futures library backends array_api functional quasirandom autograd.grad_mode utils._pytree
        utils._pytree_containers utils._python_dispatch utils._dispatched utils._dispatched_kernels utils._dispatched_parts
        utils._config_module utils._contextlib utils.weak utils.hooks utils.dlpack
        """,
    "training": """
        autograd func nn optim amp utils cpu cuda accelerator xpu mps mtia monitor multiprocessing distributions profiler hub
        """,
    "programs": """
        fx export onnx ao quantization nn.intrinsic nn.qat nn.quantized distributed jit compiler testing package compat
        __config__ __main__
        """,
}

# imports that run up: (file, what it imports) -> why
UPWARD = {
    ("_operators/namespaces.py", "compat.packages"): "torch.ops.load_library gives other packages what stands for their libraries",
    ("_tensor/__init__.py", "cuda._interface"): "the attribute __cuda_array_interface__ is one of Tensor",
    ("functions/lobpcg.py", "autograd.function"): "its derivative is a Function of its own",
    ("functions/reduce.py", "autograd"): "segment_reduce has a derivative of its own",
    ("functions/loss.py", "nn._reduction"): "PyTorch has these losses at its top level, too",
    ("functions/loss.py", "nn.functional"): "PyTorch has these losses at its top level, too",
    ("functions/resample.py", "nn.functional"): "affine_grid_generator is PyTorch's first name of nn.functional.affine_grid",
    ("functions/rnn.py", "nn.functions.rnn"): "PyTorch has recurrent networks as functions at its top level, too",
    ("nn/modules/batchnorm.py", "distributed"): "SyncBatchNorm adds up over processes",
    ("nn/parallel/distributed.py", "distributed"): "DistributedDataParallel stands in nn.parallel",
    ("nn/parallel/distributed.py", "distributed._reducer"): "DistributedDataParallel stands in nn.parallel",
    ("nn/parallel/distributed.py", "distributed.algorithms.join"): "DistributedDataParallel stands in nn.parallel",
    ("nn/utils/clip_grad.py", "distributed.tensor._norm"): "norms of gradients that are cut over processes",
}

def modules(root=ROOT / "facula"):
    """Return {name below facula: file}; files of compat/private are known by PyTorch's private names."""
    found = {"_C": None}
    for path in root.rglob("*.py"):
        parts = list(path.relative_to(root).with_suffix("").parts)
        if parts[0] == "_C":
            continue
        if parts[:2] == ["compat", "private"]:
            del parts[:2]
        if parts[-1] == "__init__":
            parts.pop()
        found[".".join(parts)] = path
    return found


def imports(name, path, known):
    """Return the modules of the package that a file imports, also within functions, but not for type checkers."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found = set()

    def add(full):
        """Note a module, or the one that has the name."""
        parts = full.split(".")
        while parts and ".".join(parts) not in known:
            parts.pop()
        found.add(".".join(parts))

    def visit(node):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for child in node.orelse:
                visit(child)
            return
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("facula."):
                    add(alias.name.removeprefix("facula."))
        elif isinstance(node, ast.ImportFrom):
            base = (node.module or "").split(".") if node.module else []
            if node.level:
                base = [*package[: len(package) - node.level + 1], *base]
            elif not base or base.pop(0) != "facula":
                return
            for alias in node.names:
                add(".".join([*base, alias.name]))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text()))
    return found - {name, ""}


@functools.cache
def graph():
    """Return {module: modules that it imports}; the package itself, which everybody may import, is left out."""
    known = modules()
    return {name: imports(name, path, known) if path else set() for name, path in known.items() if name}


def layer(module, path):
    """Return the number of a module's layer, counted from the lowest."""
    if path is not None and "private" in path.parts:
        return len(LAYERS) - 1
    numbers = {name: number for number, names in enumerate(LAYERS.values()) for name in names.split()}
    parts = module.split(".")
    while parts and ".".join(parts) not in numbers:
        parts.pop()
    assert parts, f"{module} is in no layer of tests/python_layers.py"
    return numbers[".".join(parts)]


def circles(edges):
    """Return the strongly connected components of more than one module (Tarjan's algorithm)."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        for other in edges.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on_stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            component = set()
            while node not in component:
                component.add(stack.pop())
            on_stack.difference_update(component)
            if len(component) > 1:
                found.append(component)

    for node in edges:
        if node not in index:
            visit(node)
    return found
