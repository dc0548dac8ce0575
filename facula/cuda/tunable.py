"""Find the fastest of cuBLASLt's algorithms for each matrix product by measuring them.

    torch.cuda.tunable.enable()      # or PYTORCH_TUNABLEOP_ENABLED=1
    model(x)                         # a product of new sizes waits while up to 16 ways are timed
    torch.cuda.tunable.get_results()

What is found is written into a file (tunableop_results0.csv for device 0), which later runs read, unless cuBLAS or the device
is another one. `tuning_enable(False)` uses what is known and tries nothing. The variables PYTORCH_TUNABLEOP_ENABLED, _TUNING,
_FILENAME, _RECORD_UNTUNED, _UNTUNED_FILENAME, _MAX_TUNING_DURATION_MS, _MAX_TUNING_ITERATIONS and _NUMERICAL_CHECK set the
beginning. Nothing is tried while a graph is captured.
"""

from __future__ import annotations

import glob
import multiprocessing
import os
import re
from typing import TYPE_CHECKING

import facula
from facula import _C

if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "enable", "is_enabled", "tuning_enable", "tuning_is_enabled", "record_untuned_enable", "record_untuned_is_enabled",
    "set_max_tuning_duration", "get_max_tuning_duration", "set_max_tuning_iterations", "get_max_tuning_iterations",
    "set_filename", "get_filename", "get_results", "get_validators", "read_file", "tune_gemm_in_file",
    "mgpu_tune_gemm_in_file", "set_rotating_buffer_size", "get_rotating_buffer_size", "set_numerical_check_tolerances",
]  # fmt: skip

_DTYPES = {
    "float": "float32", "tf32": "float32", "double": "float64", "Half": "float16", "BFloat16": "bfloat16",
    "c10::complex<float>": "complex64", "c10::complex<double>": "complex128",
}  # fmt: skip


def enable(val: bool = True) -> None:
    """Say whether products ask which way is the fastest.

    Args:
        val: True or False; False at the start, unless the environment says otherwise.

    >>> torch.cuda.tunable.enable()
    >>> torch.cuda.tunable.is_enabled()
    True
    >>> torch.cuda.tunable.enable(False)
    """
    _C._cuda_tuning_set("enabled", val)


def is_enabled() -> bool:
    """Return whether products ask which way is the fastest.

    >>> torch.cuda.tunable.enable(False)
    >>> torch.cuda.tunable.is_enabled()
    False
    """
    return bool(_C._cuda_tuning_settings()["enabled"])


def tuning_enable(val: bool = True) -> None:
    """Say whether ways are tried where none is known for the sizes.

    Args:
        val: True or False; True at the start.

    >>> torch.cuda.tunable.tuning_enable(False)
    >>> torch.cuda.tunable.tuning_is_enabled()
    False
    >>> torch.cuda.tunable.tuning_enable(True)
    """
    _C._cuda_tuning_set("tunes", val)


def tuning_is_enabled() -> bool:
    """Return whether ways are tried where none is known for the sizes.

    >>> torch.cuda.tunable.tuning_enable()
    >>> torch.cuda.tunable.tuning_is_enabled()
    True
    """
    return bool(_C._cuda_tuning_settings()["tunes"])


def record_untuned_enable(val: bool = True) -> None:
    """Say whether sizes for which no way is known are written into a file (tunableop_untuned0.csv), for tune_gemm_in_file().

    Args:
        val: True or False; False at the start.

    >>> torch.cuda.tunable.record_untuned_enable()
    >>> torch.cuda.tunable.record_untuned_is_enabled()
    True
    >>> torch.cuda.tunable.record_untuned_enable(False)
    """
    _C._cuda_tuning_set("records_untuned", val)


def record_untuned_is_enabled() -> bool:
    """Return whether sizes for which no way is known are written into a file.

    >>> torch.cuda.tunable.record_untuned_enable(False)
    >>> torch.cuda.tunable.record_untuned_is_enabled()
    False
    """
    return bool(_C._cuda_tuning_settings()["records_untuned"])


def set_max_tuning_duration(duration: int) -> None:
    """Set for how long a way is tried at most; once in any case.

    Args:
        duration: milliseconds, from 0 on.

    Errors: ValueError for a negative number.

    >>> before = torch.cuda.tunable.get_max_tuning_duration()
    >>> torch.cuda.tunable.set_max_tuning_duration(10)
    >>> torch.cuda.tunable.get_max_tuning_duration()
    10
    >>> torch.cuda.tunable.set_max_tuning_duration(before)
    """
    _C._cuda_tuning_set("most_milliseconds", _count(duration, "set_max_tuning_duration"))


def get_max_tuning_duration() -> int:
    """Return the milliseconds for which a way is tried at most.

    >>> torch.cuda.tunable.get_max_tuning_duration() >= 0
    True
    """
    return _C._cuda_tuning_settings()["most_milliseconds"]


def set_max_tuning_iterations(iterations: int) -> None:
    """Set how often a way is tried at most; once in any case.

    Args:
        iterations: a number, from 0 on.

    Errors: ValueError for a negative number.

    >>> before = torch.cuda.tunable.get_max_tuning_iterations()
    >>> torch.cuda.tunable.set_max_tuning_iterations(10)
    >>> torch.cuda.tunable.get_max_tuning_iterations()
    10
    >>> torch.cuda.tunable.set_max_tuning_iterations(before)
    """
    _C._cuda_tuning_set("most_iterations", _count(iterations, "set_max_tuning_iterations"))


def get_max_tuning_iterations() -> int:
    """Return how often a way is tried at most.

    >>> torch.cuda.tunable.get_max_tuning_iterations() >= 0
    True
    """
    return _C._cuda_tuning_settings()["most_iterations"]


def _count(value, name):
    if not 0 <= value < 2**31:
        raise ValueError(f"cuda.tunable.{name}: expected a number from 0 on, got {value}")
    return value


def _device():
    facula.cuda._need_device("tunable")
    return _C._cuda_current_device()


def set_filename(filename: str, insert_device_ordinal: bool = False) -> None:
    """Set the file of what is found.

    Args:
        filename: the path.
        insert_device_ordinal: whether the device's number is put before the ending.

    >>> if torch.cuda.is_available():
    ...     before = torch.cuda.tunable.get_filename()
    ...     torch.cuda.tunable.set_filename("found.csv", insert_device_ordinal=True)
    ...     assert torch.cuda.tunable.get_filename() == "found0.csv"
    ...     torch.cuda.tunable.set_filename(before)
    """
    _C._cuda_tuning_set_path(os.fspath(filename), insert_device_ordinal)


def get_filename() -> str:
    """Return the file of what is found, for the current device: tunableop_results0.csv for device 0 at the start.

    Errors: NotImplementedError without a device.

    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.tunable.get_filename().endswith(".csv")
    """
    return _C._cuda_tuning_path(_device())


def get_results() -> tuple[Any, ...]:
    """Return (op, sizes, way, milliseconds) for each problem of which a way is known.

    >>> isinstance(torch.cuda.tunable.get_results(), tuple)
    True
    """
    return tuple(_C._cuda_tuning_results())


def get_validators() -> tuple[Any, ...]:
    """Return (name, value) pairs that a file must agree with to be used: versions of cuBLAS and the device.

    Errors: NotImplementedError without a device.

    >>> if torch.cuda.is_available():
    ...     names = [name for name, value in torch.cuda.tunable.get_validators()]
    """
    return tuple(_C._cuda_tuning_validators(_device()))


def read_file(filename: str | None = None) -> bool:
    """Read what is known from a file; False where there is none, or it was made with another cuBLAS or device.

    Args:
        filename: the path; None: get_filename().

    Returns: whether something was read.

    Errors: NotImplementedError without a device.

    >>> if torch.cuda.is_available():
    ...     assert not torch.cuda.tunable.read_file("no_such_file.csv")
    """
    return _C._cuda_tuning_read(get_filename() if filename is None else os.fspath(filename), _device())


def set_rotating_buffer_size(buffer_size: int) -> None:
    """Say that tries use the same memory again and again, which is the only choice here.

    Args:
        buffer_size: 0.

    Errors: NotImplementedError for another size.

    >>> torch.cuda.tunable.set_rotating_buffer_size(0)
    """
    if buffer_size != 0:
        raise NotImplementedError(f"cuda.tunable.set_rotating_buffer_size: tries do not rotate memory, got {buffer_size}")


def get_rotating_buffer_size() -> int:
    """Return 0: tries use the same memory.

    >>> torch.cuda.tunable.get_rotating_buffer_size()
    0
    """
    return 0


def set_numerical_check_tolerances(enable: bool, atol: float = 1e-5, rtol: float = 1e-5) -> None:
    """Say whether a way is taken only where its result agrees with that of the library's own choice.

    Args:
        enable: whether.
        atol, rtol: by how much results may differ: ``atol + rtol * |expected|``.

    >>> torch.cuda.tunable.set_numerical_check_tolerances(True, atol=1e-4)
    >>> torch.cuda.tunable.set_numerical_check_tolerances(False)
    """
    for name, value in (("atol", atol), ("rtol", rtol), ("checks", enable)):
        _C._cuda_tuning_set(name, value)


def tune_gemm_in_file(filename: str) -> None:
    """Try the problems that a run with record_untuned_enable() has written; needs enable() and tuning_enable().

    Args:
        filename: the file.

    Errors: AssertionError where tuning is not enabled; FileNotFoundError where there is no such file.

    >>> torch.cuda.tunable.tune_gemm_in_file("tunableop_untuned0.csv")
    Traceback (most recent call last):
        ...
    AssertionError: cuda.tunable.tune_gemm_in_file: TunableOp is not enabled
    """
    _check_enabled("tune_gemm_in_file")
    with open(filename) as file:
        _tune(_problems(file))


def mgpu_tune_gemm_in_file(filename_pattern: str, num_gpus: int) -> None:
    """Divide the problems of several files among devices, a process each.

    What they find goes into the devices' files, and all of it into one more for each, named with "_full".

    Args:
        filename_pattern: paths of files, with * or ?.
        num_gpus: how many devices.

    Errors: AssertionError where tuning is not enabled; ValueError for more devices than there are, or if they have one file.

    >>> torch.cuda.tunable.mgpu_tune_gemm_in_file("tunableop_untuned*.csv", 2)
    Traceback (most recent call last):
        ...
    AssertionError: cuda.tunable.mgpu_tune_gemm_in_file: TunableOp is not enabled
    """
    _check_enabled("mgpu_tune_gemm_in_file")
    if not 1 <= num_gpus <= facula.cuda.device_count():
        raise ValueError(f"mgpu_tune_gemm_in_file: 1 to {facula.cuda.device_count()} devices, got {num_gpus}")
    lines = set()
    for path in glob.glob(filename_pattern):
        with open(path) as file:
            lines.update(_problems(file))
    paths = [_C._cuda_tuning_path(device) for device in range(num_gpus)]
    if len(set(paths)) < num_gpus:
        raise ValueError(f"mgpu_tune_gemm_in_file: expected a file for each device (set_filename(name, True)), got {paths[0]}")
    shares = [(device, paths[device], sorted(lines)[device::num_gpus]) for device in range(num_gpus)]
    # CUDA does not work in a process that was forked after its initialization.
    with multiprocessing.get_context("spawn").Pool(num_gpus) as pool:
        pool.starmap(_tune_on, shares)
    heads, found = [], set()
    for path in filter(os.path.exists, paths):
        with open(path) as file:
            rows = file.read().splitlines()
        heads = [row for row in rows if row.startswith("Validator")]
        found.update(row for row in rows if not row.startswith("Validator"))
    for device in range(num_gpus):
        with open(re.sub(r"0(?=\.[^.]*$|$)", f"_full{device}", paths[0]), "w") as file:
            file.writelines(f"{row}\n" for row in [*heads, *sorted(found)])


def _check_enabled(name):
    if not is_enabled():
        raise AssertionError(f"cuda.tunable.{name}: TunableOp is not enabled")
    if not tuning_is_enabled():
        raise AssertionError(f"cuda.tunable.{name}: Tuning is not enabled")


def _problems(file):
    return [line.strip() for line in file if line.startswith("Gemm")]


def _tune_on(device, path, lines):
    facula.cuda.set_device(device)
    set_filename(path)
    enable()
    tuning_enable()
    _tune(lines)


def _tune(lines):
    """Compute a product of each problem's sizes, which tries its ways."""
    before = facula.backends.cuda.matmul.allow_tf32
    try:
        for line in lines:
            _tune_one(*line.split(",")[:2])
    finally:
        facula.backends.cuda.matmul.allow_tf32 = before


def _tune_one(op, sizes):
    kind, name, turned = op.rsplit("_", 2)
    _, columns, rows, inner, *rest = sizes.split("_")  # cuBLAS's columns are rows
    columns, rows, inner = int(columns), int(rows), int(inner)
    at = rest.index("ld")
    right_step, left_step, out_step = map(int, rest[at + 1 : at + 4])
    batch = [int(rest[rest.index("B") + 1])] if "B" in rest else []
    facula.backends.cuda.matmul.allow_tf32 = name == "tf32"
    dtype = getattr(facula, _DTYPES[name])

    def matrix(high, wide, step, is_turned):
        high, wide = (wide, high) if is_turned else (high, wide)
        # Rows that are `step` elements apart have the leading dimension of the recorded problem.
        made = facula.rand(*batch, high, max(step, wide), device="cuda").to(dtype)[..., :wide]
        return made.mT if is_turned else made

    right = matrix(inner, columns, right_step, turned[0] == "T")
    left = matrix(rows, inner, left_step, turned[1] == "T")
    if kind == "GemmAndBiasTunableOp":
        bias = facula.rand(columns, device="cuda").to(dtype)
        facula.nn.functional.linear(left, right.mT, bias)
    elif batch:
        facula.bmm(left, right)
    else:
        out = facula.empty(rows, max(out_step, columns), dtype=dtype, device="cuda")[:, :columns]
        facula.mm(left, right, out=out)
