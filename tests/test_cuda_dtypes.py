"""Every op gives the CPU's results on CUDA devices in every dtype that it has on the CPU, backwards in float32 and bfloat16, too.

What has no kernel in a dtype, or gives something else, is listed in cuda_dtypes_missing.txt: op, dtypes, reason.
"""

from pathlib import Path

import pytest
from cuda_kernels import Topics
from op_samples import all_ops

HERE = Path(__file__).resolve().parent
MISSING = set((HERE / "cuda_missing.txt").read_text().split())
#: {op: the dtypes that do not work}
LISTED = {
    name: dtypes.split(",")
    for line in (HERE / "cuda_dtypes_missing.txt").read_text().splitlines() if line and not line.startswith("#")
    for name, dtypes, _ in [line.split(maxsplit=2)]
}  # fmt: skip
#: the sections are numbers and have to be on the CPU
MISSING.add("tensor_split_tensor_indices_or_sections")
OPS = [op for op in all_ops() if (op.samples is not None or op.elementwise) and op.id not in MISSING]
TOPICS = Topics(HERE / "cuda_dtypes_worker.py", OPS)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.id)
def test_op_in_every_dtype(op, request):
    report = TOPICS.report(op, request)
    listed = LISTED.get(op.id, [])
    assert set(listed) <= set(report["errors"]), f"{op.id} works in {set(listed) - set(report['errors'])}: take them off the list"
    wrong = [f"{dtype}: {error}" for dtype, errors in report["errors"].items() if dtype not in listed for error in errors]
    assert not wrong, "\n".join(wrong)
    assert report["made"], "no sample of the op runs"
