"""Writes pytorch_names.txt: PyTorch's public modules and their public names, one module a line.

Needs PyTorch, and is run by hand when Facula follows another version: `python tests/data/make_pytorch_names.py`. Names are what a module's `__all__` lists; without it, the functions and classes
that the module, or for a package a module inside it, defines. Left out are modules inside packages that PyTorch does not document one by one (INSIDE).
"""

import importlib
import pkgutil
import re
import types
import warnings
from pathlib import Path

INSIDE = re.compile(
    r"torch\.(ao\.(nn|ns)\.[\w.]*\.[\w.]+|ao\.quantization\.(fx|backend_config)\.\w+|ao\.pruning\.\w+\.\w+"
    r"|nn\.(intrinsic|qat|quantizable|quantized)\.[\w.]+|quantization\.[\w.]+|fx\.(experimental|passes)\.[\w.]+"
    r"|distributed\.(elastic\.\w+|flight_recorder|nn|launcher|optim|checkpoint|rpc|pipelining|tensor)\.[\w.]+"
    r"|distributed\.(elastic|algorithms)\.[\w.]+|jit\.\w+|masked\.\w+\.\w+|package\.\w+|onnx\.symbolic\w+|monitor\.\w+"
    r"|utils\.benchmark\.[\w.]+|utils\.data\.(datapipes\.\w+\.\w+|datapipes\.(utils|dataframe|datapipe)|\w*graph\w*|backward\w+)"
    r"|signal\.windows\.windows|utils\.(hipify|jit|backcompat|serialization|viz|show_pickle|model_dump|debug_log|collect_env|bundled_inputs)[\w.]*"
    r"|backends\.\w+\.\w+|contrib[\w.]*|nativert[\w.]*|nn\.backends[\w.]*|utils\.data\.datapipes|xpu\.\w+|mtia\.\w+)$"
)


def modules():
    """Every public module that can be imported, by name."""
    import torch

    found, waiting = {"torch": torch}, ["torch"]
    while waiting:
        package = waiting.pop()
        for info in pkgutil.iter_modules(getattr(found[package], "__path__", ()), f"{package}."):
            if info.name.rpartition(".")[2].startswith("_") or INSIDE.match(info.name):
                continue
            try:
                found[info.name] = importlib.import_module(info.name)
            except ImportError:  # needs a package that is not installed
                continue
            if info.ispkg:
                waiting.append(info.name)
    return found


def names(name, module):
    """The public names of a module."""
    if hasattr(module, "__all__"):
        return sorted(n for n in set(module.__all__) if hasattr(module, n))
    inside = (name, f"{name}.") if hasattr(module, "__path__") else (name,)  # a package gathers what its modules define
    own = []
    for key, value in vars(module).items():
        home = getattr(value, "__module__", None) or ""
        if key.startswith("_") or not callable(value):
            continue
        if home == name or home.startswith(inside[1:]) or home.startswith("torch._C"):
            own.append(key)
    return sorted(own)


def main():
    warnings.simplefilter("ignore")
    import torch

    found = {name: names(name, module) for name, module in modules().items() if isinstance(module, types.ModuleType)}
    found["torch.Tensor"] = sorted(n for n in dir(torch.Tensor) if not n.startswith("_"))
    with open(Path(__file__).with_name("pytorch_names.txt"), "w") as file:
        file.write(f"# made by tests/data/make_pytorch_names.py from PyTorch {torch.__version__.split('+')[0]}\n")
        for name in sorted(found):
            if found[name]:
                file.write(f"{name}: {' '.join(found[name])}\n")


if __name__ == "__main__":
    main()
