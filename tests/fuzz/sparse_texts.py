"""Texts of sparse tensors for the hostile fuzzer: sound ones, and ones whose indices nobody would give."""

_COO, _CSR, _BSR = "facula.sparse_coo_tensor({})", "facula.sparse_csr_tensor({})", "facula.sparse_bsr_tensor({})"
_ENTRIES = [
    "[[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3)", "[[0, 1, 0], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3)", "[[0, 5]], [1.0, 2.0], (3,)",
    "[[0, -1]], [1.0, 2.0], (3,)", "[[0, 2**62], [1, 2**62]], [1.0, 2.0], (2**31, 2**31)", "[[0, -2**63]], [1.0, 2.0], (2**62,)",
    "[[0, 1]], [1.0, 2.0], (2**62,)", "[[1, 0], [0, 1]], [1.0, 2.0], (2, 2), is_coalesced=True", "[[0, 2]], x(2, 4), (3, 4)",
    "[[0, 9]], x(2, 4), (3, 4), is_coalesced=True", "(3, 4)", "(2**62, 0)", "(0, 3)", "()", "(2**40, 2**40)", "[[0, 1]], [1, 2], (3,)", "[[0, 1]], [True, False], (3,)",
    "[[0, 1], [0, 1]], [1.0, 2.0], (2, 2), requires_grad=True", "[[0, 1], [0, 1]], [1j, 2.0], (2, 2)", "[[0, 1], [0, 1]], [1.0, 2.0], (2, 2), dtype=facula.float16",
    "[[0, 1], [0, 1]], [1.0, 2.0], (2, 2), device='meta'", "facula.zeros(70, 2, dtype=facula.int64), [1.0, 2.0], (1,) * 70", "facula.empty(0, 2), [1.0, 2.0], ()",
    "[[0, 1]], facula.zeros(1).expand(2, 2**40), (3, 2**40)", "facula.zeros(1, 1, dtype=facula.int64).expand(1, 2**40), facula.zeros(1).expand(2**40), (3,)",
]  # fmt: skip
_ROWS = [
    "[0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0], (2, 3)", "[0, 3, 2], [0, 1], [1.0, 2.0], (2, 2)", "[0, 1, 2], [0, 9], [1.0, 2.0], (2, 2)", "[0, 1, 2], [0, -1], [1.0, 2.0], (2, 2)",
    "[5, 5, 5], [0, 1], [1.0, 2.0], (2, 2)", "[0, -4, 2], [0, 1], [1.0, 2.0], (2, 2)", "[0, 2**62, 2], [0, 1], [1.0, 2.0], (2, 2)", "[0, 2, 2], [1, 1], [1.0, 2.0], (2, 2)",
    "[0, 2, 2], [1, 0], [1.0, 2.0], (2, 2)", "[-2**63, 2**63 - 1], [0, 1], [1.0, 2.0], (1, 2)", "[0, 0], facula.empty(0, dtype=facula.int64), [], (1, 2**62)",
    "[[0, 1], [0, 1]], [[0], [0]], [[1.0], [2.0]], (2, 1, 1)", "[[0, 1], [1, 0]], [[0], [0]], [[1.0], [2.0]], (2, 1, 1)", "[0, 1, 2], [0, 1], x(2, 3), (2, 2, 3)",
    "[0, 1, 2], [0, 1], [1, 2], (2, 2)", "[0, 1, 2], [0, 1], [1j, 2.0], (2, 2)", "[0, 1, 2], [0, 1], [1.0, 2.0], (2, 2), requires_grad=True",
    "facula.tensor([0, 1, 2], dtype=facula.int32), facula.tensor([0, 7], dtype=facula.int32), x(2), (2, 2)", "[0], facula.empty(0, dtype=facula.int64), [], (0, 0)",
]  # fmt: skip
_BLOCKS = ["[0, 1], [0], x(1, 2, 2), (2, 2)", "[0, 1], [3], x(1, 2, 2), (2, 4)", "[0, 2, 1], [0, 1], x(2, 1, 2), (2, 4)", "[0, 1], [0], x(1, 0, 2), (0, 2)", "[0, 1], [0], x(1, 3, 5), (2, 4)"]
TENSORS = [_COO.format(text) for text in _ENTRIES] + [_CSR.format(text) for text in _ROWS] + [_CSR.replace("csr", "csc").format(text) for text in _ROWS]
TENSORS += [form.format(text) for text in _BLOCKS for form in (_BSR, _BSR.replace("bsr", "bsc"))]
WRAPPINGS = [
    "{}.to_sparse()", "{}.to_sparse(1)", "{}.to_sparse_csr()", "{}.to_sparse_csc()", "{}.to_sparse_bsr((1, 1))", "{}.to_sparse().requires_grad_()", "{}.to_sparse_csr().requires_grad_()",
    "{}.to_sparse().coalesce()", "{}.double().requires_grad_().to_sparse()", "{}.to_sparse().to('meta')",
]  # fmt: skip
LAYOUTS = ("facula.strided", "None", "facula.sparse_coo", "facula.sparse_csr", "facula.sparse_csc", "facula.sparse_bsr", "facula.sparse_bsc")
