"""Describe the machine for the report of an error: `python -m facula.utils.collect_env`."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from facula.torch_version import TorchVersion

_PACKAGES = "facula torch numpy scipy mpich scipy-openblas32 onednn-cpu-gomp safetensors torchvision transformers".split()


def run(command: str) -> tuple[int, str, str]:
    """Return (exit status, output, errors) of a command, given as a list or as text for the shell.

    >>> torch.utils.collect_env.run("echo example")
    (0, 'example', '')
    """
    done = subprocess.run(command, shell=isinstance(command, str), capture_output=True, text=True)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def get_platform() -> str:
    """Return "linux", "darwin" or "win32": `sys.platform`.

    >>> import sys
    >>> torch.utils.collect_env.get_platform() == sys.platform
    True
    """
    return sys.platform


def get_nvidia_driver_version(run_lambda: Callable[..., Any] = run) -> str | None:
    """Return the version of NVIDIA's driver, or None.

    `run_lambda` runs the command that tells it and gives (exit status, output, errors), as `run` does.

    >>> torch.utils.collect_env.get_nvidia_driver_version(lambda command: (0, "550.54", ""))
    '550.54'
    """
    try:
        status, text, _ = run_lambda(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
    except OSError:
        return None
    return text.splitlines()[0] if status == 0 and text else None


def get_pip_packages() -> list[str]:
    """Return ["name==version"] of the packages that matter here and are installed.

    >>> all("==" in text for text in torch.utils.collect_env.get_pip_packages())
    True
    """
    found = []
    for name in _PACKAGES:
        try:
            found.append(f"{name}=={importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def get_env_info() -> dict[str, TorchVersion | str]:
    """Return {what: text} of this machine and this process.

    >>> torch.utils.collect_env.get_env_info()["Threads"] == str(torch.get_num_threads())
    True
    """
    return {
        "PyTorch version, and Facula's": facula.__version__,
        "OS": platform.platform(),
        "Processor": platform.processor() or platform.machine(),
        "Cores": str(os.cpu_count()),
        "Instruction-set level": facula.backends.cpu.get_cpu_capability(),
        "Threads": str(facula.get_num_threads()),
        "Python version": f"{platform.python_version()} ({platform.python_compiler()})",
        "Is CUDA available": str(facula.cuda.is_available()),
        "NVIDIA driver version": get_nvidia_driver_version() or "none",
        "Variables": " ".join(sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith(("FACULA_", "OMP_")))) or "none",
        "Packages": " ".join(get_pip_packages()),
    }


def get_pretty_env_info() -> str:
    """Return the text of a report, a line for each fact.

    >>> "Python version: " in torch.utils.collect_env.get_pretty_env_info()
    True
    """
    return "\n".join(f"{name}: {value}" for name, value in get_env_info().items())


def main() -> None:
    """Write the report to standard output.

    >>> torch.utils.collect_env.main()  # doctest: +ELLIPSIS
    PyTorch version, and Facula's: ...
    """
    sys.stdout.write(get_pretty_env_info() + "\n")


if __name__ == "__main__":
    main()
