"""The sparse samples of PyTorch's op database, recorded by tests/data/make_sparse_golden.py."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

import facula

DATA = Path(__file__).parent / "data"
MAKER = runpy.run_path(str(DATA / "make_sparse_golden.py"))
with np.load(DATA / "sparse_golden.npz") as _archive:
    ROWS, BYTES = json.loads(_archive["calls"].tobytes()), _archive["data"].tobytes()
OPS = sorted({row["op"] for row in ROWS})


def array(dtype, shape, offset):
    return np.frombuffer(BYTES, dtype, count=int(np.prod(shape)), offset=offset).reshape(shape).copy()


def sparse(node):
    parts, layout = [value(part) for part in node["parts"]], getattr(facula, node["layout"])
    if layout is facula.sparse_coo:
        return facula.sparse_coo_tensor(*parts, node["shape"], is_coalesced=node["coalesced"])
    return facula.sparse_compressed_tensor(*parts, node["shape"], layout=layout)


def value(node):
    """The argument or result that a node of the file stands for."""
    if isinstance(node, list):
        return [value(child) for child in node]
    if not isinstance(node, dict):
        return node
    kind = next(iter(node))
    forms = {
        "array": lambda: facula.from_numpy(array(*node["array"])),
        "layout": lambda: sparse(node),
        "tuple": lambda: tuple(value(child) for child in node["tuple"]),
        "complex": lambda: complex(*node["complex"]),
        "torch": lambda: getattr(facula, node["torch"], None) or facula.device(node["torch"]),
    }
    return forms[kind]()


def close(found, expected):
    assert found.dtype is expected.dtype and found.shape == expected.shape
    rtol = 1e-5 if found.dtype in (facula.float32, facula.complex64) else 1e-7
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=rtol, atol=1e-9)


def same(found, row):
    expected = value(row["result"])
    if not isinstance(expected, facula.Tensor):
        assert found == expected
        return
    assert found.layout is expected.layout and found.dtype is expected.dtype and found.shape == expected.shape
    if row["random"]:
        return
    if expected.layout not in (facula.strided, facula.sparse_coo):
        for part in MAKER["PARTS"][row["result"]["layout"]]:
            close(getattr(found, part)(), getattr(expected, part)())
    close(found.detach().to_dense(), expected.to_dense())


def check(row):
    function = MAKER["function_of"](facula, row["call"])
    arguments, options = value(row["args"]), {name: value(node) for name, node in row["kwargs"].items()}
    if "raises" in row:
        try:
            found = function(*arguments, **options)
        except (RuntimeError, ValueError, TypeError, IndexError):
            return  # refused as PyTorch does; else what strided tensors give
        dense = [a.to_dense() if isinstance(a, facula.Tensor) else a for a in arguments]
        return close(found.to_dense(), function(*dense, **options).to_dense())
    same(function(*arguments, **options), row)
    if "grad" not in row:
        return
    leaves = [a.detach().requires_grad_() if i in row["grad"] else a for i, a in enumerate(arguments)]
    loss = MAKER["weighted_sum"](facula, function(*leaves, **options))
    for found, expected in zip(facula.autograd.grad(loss, [leaves[i] for i in row["grad"]]), value(row["grads"]), strict=True):
        close(found.to_dense(), expected)


@pytest.mark.parametrize("op", OPS)
def test_answers_are_those_of_pytorch(op):
    failed = []
    for i, row in enumerate(ROWS):
        if row["op"] != op:
            continue
        try:
            check(row)
        except (Exception, pytest.fail.Exception) as error:
            failed.append(f"{i} {row['layout']} {type(error).__name__}: {' '.join(str(error).split())[:300]}")
    assert not failed, f"{len(failed)} of {sum(row['op'] == op for row in ROWS)}:\n" + "\n".join(failed[:12])


def test_the_samples_are_those_of_the_maker():
    assert {row["layout"] for row in ROWS} == set(MAKER["LAYOUTS"])
    assert len(OPS) >= 45 and sum("grads" in row for row in ROWS) > 100 and sum("raises" in row for row in ROWS) > 30


def test_zeros_into_a_sparse_tensor():
    x = facula.eye(3).to_sparse()
    assert facula.zeros(2, 4, out=x) is x and x.shape == (2, 4) and x._nnz() == 0 and x.layout == facula.sparse_coo
    with pytest.raises(RuntimeError, match="zeros: expected out= of the requested dtype"):
        facula.zeros(2, out=x, dtype=facula.int64)
    with pytest.raises(RuntimeError, match="zeros: expected layout to be that of out="):
        facula.zeros(2, out=facula.ones(2), layout=facula.sparse_coo)
    with pytest.raises(RuntimeError, match="^empty_like: memory_format is only supported by strided tensors"):
        facula.empty_like(x, memory_format=facula.preserve_format)


def test_a_sparse_number_times_a_sparse_tensor():
    x, number = facula.eye(2).to_sparse(), facula.tensor(3.0).to_sparse()
    for product in (x * number, number * x):
        assert product.is_sparse and product.to_dense().tolist() == [[3, 0], [0, 3]]
