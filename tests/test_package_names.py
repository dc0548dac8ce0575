"""Names at which whole packages stopped: they are there, and do what is said of them."""

import copy
import pickle
import subprocess
import sys

import pytest

import facula
from facula import nn
from facula._functorch import vmap as mapping
from facula._functorch.eager_transforms import _slice_argnums
from facula._functorch.make_functional import (
    combine_state_for_ensemble,
    functional_init,
    functional_init_with_buffers,
    make_functional,
    make_functional_with_buffers,
)
from facula._ops import HigherOrderOperator
from facula.compat import dispatch as compat_dispatch
from facula.nn.utils._named_member_accessor import NamedMemberAccessor, swap_tensor
from facula.nn.utils._per_sample_grad import call_for_per_sample_grads
from facula.utils._contextlib import _DecoratorContextManager, _NoParamDecoratorContextManager, context_decorator


def test_operators_are_copied_and_pickled_by_name():
    for operator in (facula.ops.aten.add, facula.ops.aten.add.Tensor, facula.ops.aten.sum.default):
        assert copy.deepcopy(operator) is operator and copy.copy(operator) is operator
        assert pickle.loads(pickle.dumps(operator)) is operator


def test_functorch_is_a_package():
    program = (
        "import torch, functorch, functorch.einops, functorch.experimental\n"
        "from torch._functorch.vmap import _add_batch_dim, vmap_impl\n"
        "from torch._C._functorch import is_batchedtensor\n"
        "assert functorch.vmap(torch.dot)(torch.ones(3, 2), torch.ones(3, 2)).tolist() == [2, 2, 2]\n"
        "assert functorch.einops.rearrange(torch.arange(6), '(a b) -> b a', a=2).tolist() == [[0, 3], [1, 4], [2, 5]]\n"
        "assert functorch.experimental.chunk_vmap(torch.sin, chunks=2)(torch.zeros(3)).tolist() == [0, 0, 0]\n"
        "assert functorch.grad(torch.sin)(torch.tensor(0.)) == 1 and not is_batchedtensor(torch.ones(1))\n"
        "assert functorch.make_fx(lambda x: x.sin())(torch.ones(2))(torch.zeros(2)).tolist() == [0, 0]\n"
    )
    subprocess.run([sys.executable, "-m", "facula", "-c", program], check=True)


def test_modules_as_functions_of_their_parameters():
    layer = nn.Linear(2, 1)
    function, parameters = make_functional(layer)
    assert function([p * 2 for p in parameters], facula.ones(1, 2)).allclose(layer(facula.ones(1, 2)) * 2)
    with pytest.raises(RuntimeError, match="make_functional: a model without buffers"):
        make_functional(nn.BatchNorm1d(2))
    norm = nn.BatchNorm1d(2).eval()
    function, parameters, buffers = make_functional_with_buffers(norm)
    assert function(parameters, buffers, facula.ones(3, 2)).allclose(norm(facula.ones(3, 2)))
    function, parameters, buffers = combine_state_for_ensemble([nn.Linear(2, 1), nn.Linear(2, 1)])
    assert facula.vmap(function, (0, 0, None))(parameters, buffers, facula.ones(3, 2)).shape == (2, 3, 1)
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    function, parameters = make_functional(tied)
    assert len(parameters) == 3 and function(parameters, facula.ones(1, 2)).allclose(tied(facula.ones(1, 2)))
    weights, function, names = functional_init(nn.Linear, (3,))(2, 4)
    assert names == ("weight", "bias") and facula.vmap(function)(weights, (facula.ones(3, 5, 2),)).shape == (3, 5, 4)
    weights, buffers, function, _, names = functional_init_with_buffers(nn.BatchNorm1d)(2)
    assert "running_mean" in names and function(weights, buffers, (facula.ones(3, 2),)).shape == (3, 2)
    with pytest.raises(ValueError, match=r"functional_init: expected ensemble_shape of at most 1 element, got \(1, 2\)"):
        functional_init(nn.Linear, (1, 2))(2, 2)


def test_higher_order_operators_run_their_rules():
    class Total(HigherOrderOperator):
        def __init__(self):
            super().__init__("total")

    total, key = Total(), compat_dispatch.DispatchKey.AutogradCPU
    with pytest.raises(NotImplementedError, match="total: no rule for CPU"):
        total(facula.ones(2))
    total.py_impl(key)(lambda x: (x * x).sum())
    assert total(facula.ones(2)) == 2 and facula.func.grad(total)(facula.ones(2)).tolist() == [2, 2]
    assert facula.vmap(total)(facula.ones(3, 2)).tolist() == [2, 2, 2]


def test_arguments_of_transforms_are_sliced():
    assert _slice_argnums((1, 2, 3), (2, 0)) == (3, 1)
    assert _slice_argnums((1, 2, 3), -1) == (3,) and _slice_argnums((1, 2), 0, as_tuple=False) == 1
    with pytest.raises(RuntimeError, match="argnums must be unique"):
        _slice_argnums((1, 2), (0, 0))


def test_steps_of_vmap_can_be_replaced(monkeypatch):
    seen, before = [], mapping._process_batched_inputs
    monkeypatch.setattr(mapping, "_process_batched_inputs", lambda *args: seen.append(args) or before(*args))
    assert facula.vmap(facula.sin)(facula.zeros(2)).tolist() == [0, 0] and len(seen) == 1


def test_batches_are_made_and_undone():
    x = facula.arange(6.0).reshape(2, 3)
    with mapping.vmap_increment_nesting(3, "error") as level:
        example = mapping._add_batch_dim(x, 1, level)
        assert example.shape == (2,) and mapping.is_batchedtensor(example) and mapping.maybe_get_level(example) == level
        assert mapping._remove_batch_dim(example * 2, level, 3, 1).tolist() == (x * 2).tolist()
        assert mapping._remove_batch_dim(facula.ones(2), level, 3, 0).shape == (3, 2)
        with pytest.raises(ValueError, match="with out_dim None `f` must return"):
            mapping._maybe_remove_batch_dim("f", example, level, 3, None)
    results, dims = mapping.restore_vmap(lambda a, b: (a + b, b), (0, None), 2, "error")(x, facula.ones(3))
    assert results[0].shape == (2, 3) and dims == (0, None)


def test_base_of_context_managers_that_decorate():
    class Counted(_NoParamDecoratorContextManager):
        entered = 0

        def __enter__(self):
            type(self).entered += 1

        def __exit__(self, *exception):
            return None

    @Counted
    def plain(x):
        return x

    assert plain(1) == 1 and plain(2) == 2 and Counted.entered == 2
    assert isinstance(facula.no_grad(), _DecoratorContextManager) and isinstance(Counted(), _DecoratorContextManager)
    assert context_decorator(facula.no_grad, facula.is_grad_enabled)() is False


def test_tensors_of_modules_are_swapped():
    layer = nn.Sequential(nn.Linear(2, 1))
    before, new = layer[0].weight, facula.ones(1, 2)
    assert swap_tensor(layer[0], "weight", new) is before and layer[0].weight is new
    access = NamedMemberAccessor(layer)
    assert access.swap_tensor("0.weight", before) is new and access.get_tensor("0.weight") is before
    assert access.check_keys(["0.weight", "x"]) == (["0.bias"], ["x"])
    with pytest.raises(AttributeError, match="Linear has no attribute 'other'"):
        swap_tensor(layer[0], "other", new)
    with pytest.raises(RuntimeError, match="swap_tensors_dict"):
        access.swap_tensors_dict({"0.weight": new, "0.other": new})
    assert layer[0].weight is before and not hasattr(layer[0], "other")


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_gradients_of_each_example(reduction):
    layer = nn.Sequential(nn.Conv1d(2, 3, 2), nn.Flatten(), nn.Linear(9, 2))
    x = facula.rand(5, 2, 4)
    out = call_for_per_sample_grads(layer, loss_reduction=reduction)(x)
    assert out.allclose(layer(x), atol=1e-6)
    getattr(out.square().sum(1), reduction)().backward()
    for i in range(5):
        expected = facula.autograd.grad(layer(x[i : i + 1]).square().sum(), list(layer.parameters()))
        for parameter, grad in zip(layer.parameters(), expected):
            assert parameter.grad_sample[i].allclose(grad, atol=1e-5)
    with pytest.raises(RuntimeError, match="grad_sample"):
        call_for_per_sample_grads(layer)(x)


def test_a_stream_without_a_gpu():
    stream = facula.Stream(device="cpu")
    assert stream.query() and stream == facula.Stream("cpu") and stream.device.type == "cpu" and not stream.is_capturing()
    with stream as entered:
        assert entered is stream
    with pytest.raises(RuntimeError, match="events"):
        stream.record_event()
    if not facula.cuda.is_available():
        assert facula.Stream() == stream and facula._utils._get_available_device_type() is None


def test_vtune_is_not_there():
    assert not facula.profiler.itt.is_available()
    with pytest.raises(RuntimeError, match="ITT functions not installed"), facula.profiler.itt.range("a"):
        pass


def test_no_program_is_traced_and_fake_modes_are_found():
    from facula import _guards
    from facula._subclasses import FakeTensorMode

    assert _guards.active_fake_mode() is None and _guards.TracingContext.try_get() is None
    with FakeTensorMode() as mode:
        assert _guards.active_fake_mode() is mode
        fake = facula.ones(2)
    assert _guards.detect_fake_mode([1, {"x": fake}]) is mode


def test_tensors_in_lists_are_numbers():
    assert facula.tensor([facula.tensor([1]), facula.tensor([[2]])]).tolist() == [1, 2]
    assert facula.tensor([[1, 2], facula.tensor([3, 4])]).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(TypeError, match="tensors of a single element"):
        facula.tensor([facula.tensor([0, 1]), facula.tensor([1, 0])])
    with pytest.raises(ValueError, match="tensors of a single element"):
        facula.tensor([facula.tensor([0.0, 1.0])])


def test_words_of_segment_reduce():
    x, lengths = facula.tensor([1.0, 3.0, 2.0]), facula.tensor([2, 1])
    assert facula._segment_reduce(x, "amax", lengths=lengths).tolist() == [3.0, 2.0]
    assert facula.segment_reduce(x, "amin", lengths=lengths).tolist() == [1.0, 2.0]


def test_products_of_compressed_matrices_are_csr():
    x = facula.tensor([[0.0, 1.0], [2.0, 0.0]])
    made = x.to_sparse_csr().t() @ x.to_sparse_csc()
    assert made.layout is facula.sparse_csr and made.to_dense().equal(x.t() @ x)


@pytest.mark.parametrize(("name", "now"), [("vmap", "torch.vmap"), ("grad", "torch.func.grad"), ("jacfwd", "torch.func.jacfwd")])
def test_functorch_says_where_its_functions_are_now(name, now):
    program = (
        "import warnings, torch, functorch\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        f"    functorch.{name}(torch.sin)\n"
        f"assert seen[0].category is FutureWarning and '`{now}`' in str(seen[0].message)\n"
    )
    subprocess.run([sys.executable, "-m", "facula", "-c", program], check=True)


def test_references_to_storages_do_not_keep_them():
    from facula.multiprocessing.reductions import StorageWeakRef

    x, y = facula.ones(2), facula.ones(2)
    seen = {StorageWeakRef(x.untyped_storage()), StorageWeakRef(x[1:].storage()), StorageWeakRef(y.untyped_storage())}
    assert len(seen) == 2 and not any(reference.expired() for reference in seen)
    kept = StorageWeakRef(y.untyped_storage())
    del y
    assert kept.expired()


def test_pickles_name_what_stays():
    """PyTorch's names for the functions that rebuild tensors, and names that pickles of Facula have carried before."""
    x = facula.ones(2, dtype=facula.float64)
    assert b"facula._utils" in pickle.dumps(x) and pickle.loads(pickle.dumps(x)).equal(x)
    for place in ("facula._pickled", "facula._tensor.pickled"):
        assert pickle.loads(f"c{place}\nconstant\n(S'float16'\ntR.".encode()) is facula.float16
    assert pickle.loads(b"cfacula._ops\n_operator\n(S'aten'\nS'add'\ntR.") is facula.ops.aten.add


def test_private_names_are_the_very_modules():
    import facula._dynamo.exc
    from facula.compiler import _errors, _settings
    from facula.func import _batching

    assert facula._dynamo.exc is _errors and facula._dynamo.config is _settings and mapping is _batching
    assert facula._utils is sys.modules["facula._serialization.rebuild"]
