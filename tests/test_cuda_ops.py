"""Every op with samples runs on CUDA devices and gives the CPU's results: on the emulated device, or on a GPU where there is one.

Runs happen in other processes, with the environment of conftest's `cuda_environment`. What has no kernel yet is listed here, by op."""

from pathlib import Path

import pytest
from cuda_kernels import Topics
from op_samples import all_ops

HERE = Path(__file__).resolve().parent

#: ops without a kernel, or whose derivative is without one: they raise NotImplementedError with the kernel's name
MISSING = set((HERE / "cuda_missing.txt").read_text().split())

#: ops whose samples cannot be compared, and why
EXCEPTIONS = {
    "tensor_split_tensor_indices_or_sections": "the sections are numbers, and have to be on the CPU; PyTorch wants them there, too",
    "as_strided": "the strided sample reads between the elements of its input, which a copy of the elements does not fill",
    "as_strided_copy": "as as_strided",
}


def with_samples():
    return [op for op in all_ops() if op.samples is not None or op.elementwise]


TOPICS = Topics(HERE / "device_worker.py", with_samples())


@pytest.mark.parametrize("op", with_samples(), ids=lambda op: op.id)
def test_op_on_cuda(op, request):
    report = TOPICS.report(op, request)
    if op.id in EXCEPTIONS:
        assert report["errors"], f"{op.id} works: it is no exception any more"
        return
    if op.id in MISSING:
        assert any("no kernel for this device" in e for e in report["errors"]), f"{op.id} works: take it off the list"
        assert all("NotImplementedError" in e for e in report["errors"]), "\n".join(report["errors"])
        return
    assert not report["errors"], "\n".join(report["errors"])
    assert report["made"], "no sample of the op runs"
