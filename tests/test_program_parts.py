"""Parts that few programs use: prefixes of functions, indices of sparse layouts, records of checkpoints, and others beside them."""

import io

import numpy as np
import pytest

import facula as torch
from facula import nn
from facula._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from facula._higher_order_ops import associative_scan
from facula.ao import quantization
from facula.ao.quantization import observer
from facula.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
from facula.distributed.fsdp import FullyShardedDataParallel, OptimStateKeyType
from facula.nn.functional import ScalingType, SwizzleType, scaled_mm

# ---- prefixes


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8, 13])
def test_prefixes_of_associative_functions(length):
    x = torch.randn(3, length, 2, 2, dtype=torch.float64)
    torch.testing.assert_close(associative_scan(torch.add, x, 1), x.cumsum(1))
    torch.testing.assert_close(associative_scan(torch.maximum, x, 1, reverse=True), x.flip(1).cummax(1).values.flip(1))
    products = associative_scan(lambda a, b: a @ b, x, 1, combine_mode="generic")
    expected = x[:, 0]
    for i in range(length):
        expected = expected @ x[:, i] if i else expected
        torch.testing.assert_close(products[:, i], expected)


def test_prefixes_of_several_tensors_have_gradients():
    """A linear recurrence h[i] = a[i] h[i - 1] + b[i], as state space models compute it."""
    a, b = (torch.rand(2, 6, dtype=torch.float64, requires_grad=True) for _ in "ab")
    step = lambda left, right: {"a": left["a"] * right["a"], "b": left["b"] * right["a"] + right["b"]}
    h = associative_scan(step, {"a": a, "b": b}, -1)["b"]
    expected, state = [], torch.zeros(2, dtype=torch.float64)
    for i in range(6):
        state = a[:, i] * state + b[:, i]
        expected.append(state)
    torch.testing.assert_close(h, torch.stack(expected, 1))
    for one, other in zip(torch.autograd.grad(h.square().sum(), (a, b)), torch.autograd.grad(torch.stack(expected).square().sum(), (a, b))):
        torch.testing.assert_close(one, other)


def test_indices_that_stay_tensors():
    table, at = torch.arange(12).reshape(3, 4), torch.tensor([2, 0])
    with TransformGetItemToIndex():
        assert torch.vmap(lambda i: table[i])(at).tolist() == table[at].tolist()
        assert torch.vmap(lambda i: table[i, i + 1])(at).tolist() == [11, 1]
        assert table[at].tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]] and table[1:, 0].tolist() == [4, 8] and table[-1, -1] == 11
        assert table[table > 9].tolist() == [10, 11] and table[torch.tensor(1)].tolist() == [4, 5, 6, 7]


# ---- sparse


def test_indices_of_sparse_layouts():
    dense = torch.tensor([[0.0, 1, 2], [0, 0, 0], [3, 0, 4], [0, 5, 0]])
    coo, csr = dense.to_sparse_coo(), dense.to_sparse_csr()
    assert coo.layout is torch.sparse_coo and torch.equal(coo.to_dense(), dense) and torch.equal(csr.to_sparse_coo().to_dense(), dense)
    rows = coo.indices()[0]
    assert torch.equal(torch._convert_indices_from_coo_to_csr(rows, 4), csr.crow_indices())
    assert torch._convert_indices_from_coo_to_csr(rows, 6, out_int32=True).tolist() == [0, 2, 2, 4, 5, 5, 5]
    assert torch._convert_indices_from_coo_to_csr(rows[:0].int(), 2).tolist() == [0, 0, 0]
    made = torch._convert_indices_from_csr_to_coo(csr.crow_indices(), csr.col_indices())
    assert torch.equal(made, coo.indices()) and made.dtype is torch.int64
    made = torch._convert_indices_from_csr_to_coo(csr.crow_indices(), csr.col_indices(), transpose=True, out_int32=True)
    assert torch.equal(made.long(), coo.indices().flip(0)) and made.dtype is torch.int32
    batch = torch._convert_indices_from_csr_to_coo(torch.tensor([[0, 2, 3], [0, 0, 3]]), torch.tensor([[1, 0, 2], [0, 1, 2]]))
    assert batch.tolist() == [[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1], [1, 0, 2, 0, 1, 2]]


def test_products_and_diagonals_of_sparse_matrices():
    dense, other, added = torch.tensor([[0.0, 2.0], [1.0, 0.0]]), torch.tensor([[1.0, -1.0], [3.0, 4.0]]), torch.ones(2, 2)
    sparse = dense.to_sparse_coo()
    assert torch.equal(torch.dsmm(sparse, other), dense @ other)
    assert torch.equal(torch.ops.aten._sparse_addmm(added, sparse, other, beta=2, alpha=-1), 2 * added - dense @ other)
    rows = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    made = torch.sparse.spdiags(rows, torch.tensor([0, -1]), (3, 3))
    assert made.layout is torch.sparse_coo and made.to_dense().tolist() == [[1, 0, 0], [4, 2, 0], [0, 5, 3]]


# ---- records of checkpoints


def test_records_of_a_checkpoint(tmp_path):
    value = {"x": torch.arange(5.0), "n": torch.tensor([1, 2], dtype=torch.int16)}
    path = tmp_path / "value.pt"
    torch.save(value, path)
    data = path.read_bytes()
    for reader in (torch.PyTorchFileReader(path), torch.PyTorchFileReader(str(path)), torch.PyTorchFileReader(io.BytesIO(data))):
        names = reader.get_all_records()
        assert {"data.pkl", "data/0", "data/1", "version"} <= set(names) and reader.has_record("data/0") and not reader.has_record("x")
        assert reader.get_record("version").strip() == b"3" and reader.serialization_id().isdigit()
        at = reader.get_record_offset("data/0")
        assert data[at : at + 20] == value["x"].numpy().tobytes() == reader.get_record("data/0")
        x = reader.get_storage_from_record("data/0", 5, torch.float32)
        x += 1  # a tensor of its own
        assert x.tolist() == [1, 2, 3, 4, 5] and reader.get_storage_from_record("data/1", 2, torch.int16).tolist() == [1, 2]


# ---- products of float8


def test_products_of_float8_with_scales():
    a, b = torch.randn(3, 4).to(torch.float8_e4m3fn), torch.randn(4, 5).to(torch.float8_e4m3fn)
    exact, whole = a.float() @ b.float(), ScalingType.TensorWise
    two, bias = torch.tensor(2.0), torch.arange(5.0)
    made = scaled_mm(a, b, two, whole, torch.tensor(0.5), whole, bias=bias, output_dtype=torch.float32)
    torch.testing.assert_close(made, exact + bias)
    rows, columns = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 0.0, 2.0, 1.0, 1.0])
    kinds = [ScalingType.RowWise], [SwizzleType.NO_SWIZZLE]
    for scale_a, scale_b in ((rows, columns), (rows[:, None], columns[None])):
        made = scaled_mm(a, b, [scale_a], kinds[0], [scale_b], kinds[0], *kinds[1:] * 2, output_dtype=torch.float32)
        torch.testing.assert_close(made, exact * rows[:, None] * columns)
    assert scaled_mm(a, b, two, whole, two, whole).dtype is torch.bfloat16


def test_products_of_groups_of_matrices():
    a, b, ends = torch.randn(6, 4), torch.randn(2, 4, 3), torch.tensor([2, 6], dtype=torch.int32)
    expected = torch.cat([a[:2] @ b[0], a[2:] @ b[1]])
    torch.testing.assert_close(torch._grouped_mm(a, b, offs=ends), expected)
    torch.testing.assert_close(torch._grouped_mm(a, b, ends), expected)
    torch.testing.assert_close(torch.ops.aten._grouped_mm(a, b, ends), expected)


def test_pinned_copies():
    x = torch.arange(3.0)
    if torch.cuda.is_available():
        assert torch.ops.aten._pin_memory(x).is_pinned()
    else:
        with pytest.raises(RuntimeError, match="^pin_memory: "):
            torch.ops.aten._pin_memory(x)


def test_indices_of_an_op():
    x = torch.arange(6).reshape(2, 3)
    rows, columns = torch.tensor([1, 0]), torch.tensor([2, 2])
    for index in (torch.ops.aten.index, torch.ops.aten.index.Tensor):
        assert index(x, [rows, columns]).tolist() == [5, 2] and index(x, [rows]).tolist() == [[3, 4, 5], [0, 1, 2]]
    assert torch.ops.aten.index(x, [None, columns]).tolist() == [[2, 2], [5, 5]]


# ---- quantized


def test_observers_by_their_names():
    x = torch.tensor([[-1.0, 0.5], [4.0, 2.0]])
    made = quantization.default_observer()
    made(x)
    scale, zero_point = made.calculate_qparams()
    assert scale.item() == pytest.approx(5 / 127) and zero_point.item() == round(127 / 5) and made.quant_max == 127
    weight = quantization.default_weight_observer()
    weight(x)
    scale, zero_point = weight.calculate_qparams()
    assert weight.dtype is torch.qint8 and scale.item() == pytest.approx(4 / 127.5) and zero_point.item() == 0
    rows = observer.default_per_channel_weight_observer()
    rows(x)
    scale, _ = rows.calculate_qparams()
    np.testing.assert_allclose(scale.numpy(), [1 / 127.5, 4 / 127.5], rtol=1e-6)


@pytest.mark.parametrize("home", [quantization.qconfig, torch.quantization.qconfig])
def test_dynamic_layers_with_a_scale_for_each_row(home):
    model = nn.Sequential(nn.Linear(4, 3))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0] * 4, [0.01] * 4, [-100.0] * 4]))
    made = quantization.quantize_dynamic(model, {nn.Linear: home.per_channel_dynamic_qconfig})
    weight = made[0].weight()
    assert weight.qscheme() is torch.per_channel_affine and weight.q_per_channel_scales().numel() == 3
    x = torch.rand(2, 4)
    np.testing.assert_allclose(made(x).detach().numpy(), model(x).detach().numpy(), rtol=0.02, atol=0.02)


def test_quantized_tensors_of_levels():
    levels = torch.tensor([0, 10, 255], dtype=torch.uint8)
    made = torch._make_per_tensor_quantized_tensor(levels, 0.5, 10)
    assert made.dtype is torch.quint8 and made.dequantize().tolist() == [-5, 0, 122.5] and torch.equal(made.int_repr(), levels)


# ---- state of optimizers


def trained():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    groups = [{"params": list(model[1].parameters())}, {"params": list(model[0].parameters()), "lr": 0.5}]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_state_by_names_and_by_numbers():
    model, optimizer = trained()
    rekey, state = FullyShardedDataParallel.rekey_optim_state_dict, optimizer.state_dict()
    named = rekey(state, OptimStateKeyType.PARAM_NAME, model, optim=optimizer)
    assert list(named["state"]) == ["1.weight", "1.bias", "0.weight", "0.bias"]
    assert [(g["params"], g["lr"]) for g in named["param_groups"]] == [(["1.bias", "1.weight"], 0.1), (["0.bias", "0.weight"], 0.5)]
    assert torch.equal(named["state"]["0.bias"]["momentum_buffer"], model[0].bias.grad)
    back = rekey(named, OptimStateKeyType.PARAM_ID, model, optim_input=optimizer.param_groups)
    assert list(back["state"]) == [0, 1, 2, 3] and [g["params"] for g in back["param_groups"]] == [[0, 1], [2, 3]]
    optimizer.load_state_dict(back)
    assert rekey(named, OptimStateKeyType.PARAM_NAME, model)["state"] is named["state"]


# ---- others


def test_passes_of_exported_programs_give_their_result():
    graph = torch.fx.symbolic_trace(nn.ReLU())
    result = torch.export.PassResult(graph, True)
    assert result.graph_module is graph and result.modified and torch.fx.passes.infra.pass_base.PassResult is torch.export.PassResult


def test_tables_of_decompositions():
    table = torch.export.default_decompositions()
    copied = table.copy()
    assert isinstance(table, torch.export.CustomDecompTable) and type(copied) is torch.export.CustomDecompTable
    key = next(iter(copied))
    del copied[key]
    assert key in table and key not in copied


def test_what_a_fake_kernel_may_ask():
    with pytest.raises(NotImplementedError, match="^new_dynamic_size: .* got min=1, max=None$"):
        torch.library.get_ctx().new_dynamic_size(min=1)


def test_activations_computed_again_without_reentering():
    calls = []
    layer = nn.Linear(2, 2)
    layer.register_forward_hook(lambda *_: calls.append(1))
    wrapped = checkpoint_wrapper(nn.Sequential(layer, nn.Tanh()), CheckpointImpl.NO_REENTRANT)
    wrapped(torch.ones(1, 2)).sum().backward()
    expected = 1 - layer(torch.ones(1, 2)).tanh().square()
    assert len(calls) == 3
    torch.testing.assert_close(layer.weight.grad, expected.T.expand(2, 2))


def test_no_toolkit_of_another_vendor():
    assert torch.utils.cpp_extension.ROCM_HOME is None


MODEL, OPTIMIZER = trained()
A = torch.ones(2, 2).to(torch.float8_e4m3fn)
ONE, WHOLE = torch.tensor(1.0), ScalingType.TensorWise
FILE = io.BytesIO()
torch.save(torch.ones(3), FILE)
READER = torch.PyTorchFileReader(io.BytesIO(FILE.getvalue()))
TO_CSR, TO_COO = torch._convert_indices_from_coo_to_csr, torch._convert_indices_from_csr_to_coo
REKEY = FullyShardedDataParallel.rekey_optim_state_dict


@pytest.mark.parametrize(
    ("use", "kind", "text"),
    [
        (lambda: associative_scan(torch.add, torch.ones(3), 0, combine_mode="x"), ValueError, "^associative_scan: .* got 'x'$"),
        (lambda: associative_scan(torch.add, torch.ones(3), 1), IndexError, "got 1"),
        (lambda: associative_scan(torch.add, [torch.ones(3), torch.ones(2)], 0), RuntimeError, "one length"),
        (lambda: associative_scan(torch.add, [], 0), RuntimeError, "^associative_scan: xs must be tensors"),
        (lambda: associative_scan(lambda a, b: (a, b), torch.ones(3), 0), RuntimeError, "^associative_scan: combine_fn must give"),
        (lambda: associative_scan(lambda a, b: a[:1], torch.ones(5), 0), RuntimeError, "^associative_scan: combine_fn must give"),
        (lambda: TO_CSR(torch.ones(2), 2), RuntimeError, "got torch.float32$"),
        (lambda: TO_CSR(torch.tensor([[1]]), 2), RuntimeError, "a vector, got 2 dim"),
        (lambda: TO_CSR(torch.tensor([5]), 2), RuntimeError, "below 2, got 5 to 5$"),
        (lambda: TO_CSR(torch.tensor([-1]), 2), RuntimeError, "got -1 to -1$"),
        (lambda: TO_CSR(torch.tensor([1, 0]), 2), RuntimeError, "in order"),
        (lambda: TO_CSR(torch.tensor([1, 0]), -1), RuntimeError, "got -1$"),
        (lambda: TO_COO(torch.tensor([0, 2]), torch.tensor([1])), RuntimeError, r"from 0 to 1, got \[0, 2\]$"),
        (lambda: TO_COO(torch.tensor([0, 2, 1]), torch.tensor([1])), RuntimeError, "must rise"),
        (lambda: TO_COO(torch.tensor([[0, 1]]), torch.tensor([1])), RuntimeError, r"got \(1, 2\) and \(1,\)$"),
        (lambda: TO_COO(torch.tensor([0.0]), torch.tensor([1])), RuntimeError, "got torch.float32$"),
        (lambda: torch.PyTorchFileReader(3), TypeError, "^PyTorchFileReader: .* got int$"),
        (lambda: torch.PyTorchFileReader(io.BytesIO(b"no")), RuntimeError, "damaged"),
        (lambda: torch.PyTorchFileReader("/nowhere/at/all"), RuntimeError, "cannot be opened: .*at/all"),
        (lambda: READER.get_record("nope"), RuntimeError, "no record 'nope'$"),
        (lambda: READER.get_storage_from_record("data/0", 2, torch.float32), RuntimeError, "12 bytes, .* got 2$"),
        (lambda: READER.get_storage_from_record("data/0", -3, torch.float32), RuntimeError, "got -3$"),
        (lambda: scaled_mm(A, A, ONE, ScalingType.BlockWise1x32, ONE, WHOLE), NotImplementedError, "^scaled_mm: both recipes"),
        (lambda: scaled_mm(A, A, [ONE, ONE], WHOLE, ONE, WHOLE), NotImplementedError, "got 2$"),
        (lambda: scaled_mm(A, A, ONE, WHOLE, ONE, WHOLE, SwizzleType.SWIZZLE_32_4_4), NotImplementedError, "order, got"),
        (lambda: scaled_mm(A, A, ONE, WHOLE, ONE, WHOLE, contraction_dim=(0, 0)), NotImplementedError, r"got \(0, 0\)$"),
        (lambda: scaled_mm(A, A, ONE, ScalingType.RowWise, ONE, ScalingType.RowWise), RuntimeError, r"2 elements, got \(\)$"),
        (lambda: REKEY(OPTIMIZER.state_dict(), "x", MODEL), TypeError, "got 'x'$"),
        (lambda: REKEY(OPTIMIZER.state_dict(), OptimStateKeyType.PARAM_NAME, nn.Linear(1, 1), optim=OPTIMIZER), ValueError, "got 4 and"),
        (lambda: REKEY({"state": {9: {}}, "param_groups": []}, OptimStateKeyType.PARAM_NAME, MODEL), ValueError, r"got \[9\]$"),
    ],
)  # fmt: skip
def test_what_is_refused(use, kind, text):
    with pytest.raises(kind, match=text):
        use()
