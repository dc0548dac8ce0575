"""nn.init and nn.utils, against closed forms and NumPy."""

import copy
import pickle

import numpy as np
import pytest

import facula
from facula import nn
from facula.nn.utils import parametrizations, parametrize, prune
from facula.nn.utils import rnn as rnn_utils


def array(tensor):
    return tensor.detach().numpy()


def tensor(shape, seed=0):
    return facula.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


# -- initializers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fill, std, bound",
    [
        (lambda t: nn.init.xavier_uniform_(t, 2.0), 2 * np.sqrt(2 / 700), 2 * np.sqrt(6 / 700)),
        (lambda t: nn.init.xavier_normal_(t), np.sqrt(2 / 700), None),
        (lambda t: nn.init.kaiming_uniform_(t, nonlinearity="relu"), np.sqrt(2 / 300), np.sqrt(6 / 300)),
        (lambda t: nn.init.kaiming_normal_(t, mode="fan_out", nonlinearity="linear"), np.sqrt(1 / 400), None),
        (lambda t: nn.init.normal_(t, 0.0, 0.3), 0.3, None),
        (lambda t: nn.init.uniform_(t, -0.6, 0.6), 0.6 / np.sqrt(3), 0.6),
    ],
)
def test_spread_of_random_initializers(fill, std, bound):
    facula.manual_seed(0)
    values = array(fill(facula.empty(400, 300)))
    assert abs(values.mean()) < 0.02 * std + 0.001 and abs(values.std() / std - 1) < 0.02
    if bound is not None:
        assert np.abs(values).max() <= bound * (1 + 1e-6)


@pytest.mark.parametrize("low, high", [(-1.0, 1.0), (1.5, 3.0)])
def test_truncated_normal(low, high):
    facula.manual_seed(0)
    values = array(nn.init.trunc_normal_(facula.empty(20000), 0.0, 1.0, low, high))
    assert values.min() >= low and values.max() <= high
    grid = np.linspace(low, high, 2001)
    density = np.exp(-(grid**2) / 2)
    assert abs(values.mean() - (grid * density).sum() / density.sum()) < 0.02


def test_structured_initializers():
    np.testing.assert_array_equal(array(nn.init.eye_(facula.empty(3, 4))), np.eye(3, 4))
    q = array(nn.init.orthogonal_(facula.empty(3, 2, 2), gain=2.0)).reshape(3, 4)
    np.testing.assert_allclose(q @ q.T, 4 * np.eye(3), atol=1e-5)
    x = tensor((1, 4, 6))
    weight = nn.init.dirac_(facula.empty(4, 4, 3))
    np.testing.assert_allclose(array(nn.functional.conv1d(x, weight, padding=1)), array(x))
    sparse = array(nn.init.sparse_(facula.empty(10, 5), 0.35))
    assert ((sparse == 0).sum(0) == 4).all()


def test_initializer_errors():
    with pytest.raises(ValueError, match="eye_.*got 1"):
        nn.init.eye_(facula.empty(3))
    with pytest.raises(ValueError, match="got 'swish'"):
        nn.init.calculate_gain("swish")
    with pytest.raises(ValueError, match="got 1"):
        nn.init.kaiming_uniform_(facula.empty(3))


# -- gradients and vectors -----------------------------------------------------------------------------------


def parameters_with_gradients():
    params = [nn.Parameter(facula.zeros(3)), nn.Parameter(facula.zeros(2, 2)), nn.Parameter(facula.zeros(1))]
    params[0].grad, params[1].grad = tensor((3,)), tensor((2, 2), 1)
    return params


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, float("inf")])
def test_clip_grad_norm(order):
    params = parameters_with_gradients()
    flat = np.concatenate([array(p.grad).ravel() for p in params[:2]])
    total = nn.utils.clip_grad_norm_(params, 0.5, order)
    np.testing.assert_allclose(total.item(), np.linalg.norm(flat, order), rtol=1e-5)
    clipped = np.concatenate([array(p.grad).ravel() for p in params[:2]])
    np.testing.assert_allclose(clipped, flat * 0.5 / np.linalg.norm(flat, order), rtol=1e-4)
    nn.utils.clip_grad_norm_(params, 10.0, order)
    np.testing.assert_allclose(
        np.concatenate([array(p.grad).ravel() for p in params[:2]]), clipped, rtol=1e-6
    )


def test_clip_grad_value_and_nonfinite():
    params = parameters_with_gradients()
    nn.utils.clip_grad_value_(params, 0.1)
    assert max(np.abs(array(p.grad)).max() for p in params[:2]) <= 0.1 + 1e-7
    params[0].grad[0] = float("nan")
    with pytest.raises(RuntimeError, match="clip_grad.*got nan"):
        nn.utils.clip_grad_norm_(params, 1.0, error_if_nonfinite=True)


def test_parameters_as_a_vector():
    net = nn.Linear(2, 3)
    vector = nn.utils.parameters_to_vector(net.parameters())
    assert vector.shape == (9,)
    nn.utils.vector_to_parameters(facula.arange(9.0), net.parameters())
    np.testing.assert_array_equal(array(net.weight).ravel(), np.arange(6))
    np.testing.assert_array_equal(array(net.bias), [6, 7, 8])


# -- sequences -----------------------------------------------------------------------------------------------


def test_padding_and_packing_round_trip():
    sequences = [tensor((n, 2), n) for n in (2, 4, 3)]
    padded = rnn_utils.pad_sequence(sequences, batch_first=True, padding_value=9.0)
    assert padded.shape == (3, 4, 2) and (array(padded)[0, 2:] == 9.0).all()
    left = rnn_utils.pad_sequence(sequences, padding_side="left")
    np.testing.assert_array_equal(array(left)[2:, 0], array(sequences[0]))
    packed = rnn_utils.pack_sequence(sequences, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 3, 2, 1] and packed.data.shape == (9, 2)
    for got, expected in zip(rnn_utils.unpack_sequence(packed), sequences):
        np.testing.assert_array_equal(array(got), array(expected))
    again, lengths = rnn_utils.pad_packed_sequence(packed, batch_first=True, total_length=6)
    assert again.shape == (3, 6, 2) and lengths.tolist() == [2, 4, 3]


@pytest.mark.parametrize(
    "lengths, text", [([2, 4], "decreasing"), ([4, 0], "positive"), ([4], "one length"), ([5, 1], "at most")]
)
def test_packing_errors(lengths, text):
    with pytest.raises(RuntimeError, match=f"pack_padded_sequence.*{text}"):
        rnn_utils.pack_padded_sequence(tensor((4, 2, 3)), lengths)


# -- weight and spectral normalization -----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_weight_norm_hook_and_parametrization_agree():
    plain = nn.Linear(3, 4)
    old = nn.utils.weight_norm(copy.deepcopy(plain))
    new = parametrizations.weight_norm(copy.deepcopy(plain))
    x = tensor((2, 3))
    for net in (old, new):
        np.testing.assert_allclose(array(net(x)), array(plain(x)), rtol=1e-5, atol=1e-6)
    with facula.no_grad():
        old.weight_g.mul_(2.0)
    new.load_state_dict(old.state_dict())
    np.testing.assert_allclose(array(new(x)), array(old(x)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(array(new.weight), 2 * array(plain.weight), rtol=1e-5)
    nn.utils.remove_weight_norm(old)
    parametrize.remove_parametrizations(new, "weight")
    assert list(old.state_dict()) == ["bias", "weight"] and type(new) is nn.Linear
    np.testing.assert_allclose(array(new.weight), array(old.weight), rtol=1e-5)


@pytest.mark.parametrize("wrap", [nn.utils.spectral_norm, parametrizations.spectral_norm])
def test_spectral_norm_gives_unit_norm(wrap):
    facula.manual_seed(0)
    net = wrap(nn.Linear(4, 3), n_power_iterations=50)
    net(tensor((1, 4)))
    np.testing.assert_allclose(np.linalg.norm(array(net.weight), 2), 1.0, rtol=1e-4)


# -- parametrizations ----------------------------------------------------------------------------------------


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)

    def right_inverse(self, x):
        return x.triu()


def test_parametrization_reads_writes_and_goes():
    net = nn.Linear(3, 3)
    parametrize.register_parametrization(net, "weight", Symmetric())
    assert list(net.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert type(net).__name__ == "ParametrizedLinear" and isinstance(net, nn.Linear)
    np.testing.assert_array_equal(array(net.weight), array(net.weight).T)
    net.weight = facula.ones(3, 3)
    np.testing.assert_array_equal(array(net.parametrizations.weight.original), np.triu(np.ones((3, 3))))
    net(tensor((1, 3))).sum().backward()
    assert net.parametrizations.weight.original.grad is not None
    other = copy.deepcopy(net)
    np.testing.assert_array_equal(array(other.weight), np.ones((3, 3)))
    with pytest.raises(RuntimeError, match="state_dict"):
        pickle.dumps(net)
    parametrize.remove_parametrizations(net, "weight")
    assert type(net) is nn.Linear and not parametrize.is_parametrized(net)
    np.testing.assert_array_equal(array(net.weight), np.ones((3, 3)))
    assert parametrize.is_parametrized(other, "weight")


def test_cached_parametrizations_compute_once():
    net, calls = nn.Linear(2, 2), []

    class Counting(nn.Module):
        def forward(self, x):
            calls.append(1)
            return x * 1

    parametrize.register_parametrization(net, "weight", Counting(), unsafe=True)
    calls.clear()
    with parametrize.cached():
        assert net.weight is net.weight
    assert len(calls) == 1
    assert net.weight is not net.weight


@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_orthogonal(kind, shape):
    net = parametrizations.orthogonal(nn.Linear(*shape), orthogonal_map=kind)
    w = array(net.weight)
    w = w if w.shape[0] >= w.shape[1] else w.T
    np.testing.assert_allclose(w.T @ w, np.eye(w.shape[1]), atol=1e-5)


# -- pruning -------------------------------------------------------------------------------------------------


def test_pruning_methods_stack():
    net = nn.Linear(4, 5)
    original = array(net.weight).copy()
    prune.l1_unstructured(net, "weight", 0.25)
    assert (array(net.weight) == 0).sum() == 5
    assert (
        np.abs(original[array(net.weight_mask) == 0]).max()
        <= np.abs(original[array(net.weight_mask) == 1]).min()
    )
    prune.ln_structured(net, "weight", 2, n=2, dim=0)
    assert (array(net.weight_mask).sum(1) == 0).sum() == 2 and prune.is_pruned(net)
    assert sorted(net.state_dict()) == ["bias", "weight_mask", "weight_orig"]
    x = tensor((1, 4))
    pruned = array(net(x)).copy()
    prune.remove(net, "weight")
    assert not prune.is_pruned(net) and sorted(net.state_dict()) == ["bias", "weight"]
    np.testing.assert_array_equal(array(net(x)), pruned)


def test_global_pruning_and_errors():
    a, b = nn.Linear(2, 2), nn.Linear(3, 2)
    prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=4)
    assert (array(a.weight_mask) == 0).sum() + (array(b.weight_mask) == 0).sum() == 4
    with pytest.raises(ValueError, match="got 7"):
        prune.random_unstructured(nn.Linear(2, 3), "weight", 7)
    with pytest.raises(ValueError, match="got 'bias'"):
        prune.remove(a, "bias")


# -- fusion, stateless calls, skipped initialization ---------------------------------------------------------


@pytest.mark.parametrize("transpose", [False, True])
def test_conv_bn_fusion(transpose):
    conv = (nn.ConvTranspose2d if transpose else nn.Conv2d)(2, 3, 2)
    bn = nn.BatchNorm2d(3)
    bn(conv(tensor((4, 2, 5, 5))))
    conv.eval(), bn.eval()
    x = tensor((1, 2, 4, 4), 1)
    fused = nn.utils.fuse_conv_bn_eval(conv, bn, transpose)
    np.testing.assert_allclose(array(fused(x)), array(bn(conv(x))), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_functional_call_leaves_the_module_alone():
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.BatchNorm1d(2))
    weight, mean = net[0].weight, array(net[1].running_mean).copy()
    values = {"0.weight": facula.eye(2, requires_grad=True), "1.running_mean": facula.zeros(2)}
    out = nn.utils.stateless.functional_call(net, values, tensor((5, 2)))
    out.pow(3).sum().backward()
    assert values["0.weight"].grad is not None and net[0].weight is weight and weight.grad is None
    np.testing.assert_array_equal(array(net[1].running_mean), mean)
    assert np.abs(array(values["1.running_mean"])).max() > 0
    with pytest.raises(RuntimeError, match="Missing key"):
        nn.utils.stateless.functional_call(net, values, tensor((5, 2)), strict=True)


def test_skip_init_allocates_on_the_device():
    net = nn.utils.skip_init(nn.Linear, 3, 4)
    assert (
        net.weight.shape == (4, 3)
        and net.weight.device.type == "cpu"
        and isinstance(net.weight, nn.Parameter)
    )
    with pytest.raises(RuntimeError, match="skip_init"):
        nn.utils.skip_init(nn.ReLU)


def test_deep_copies_of_a_parametrized_module_are_their_own():
    class Doubled(nn.Module):
        def forward(self, x):
            return 2 * x

        def right_inverse(self, x):
            return x / 2

    net = nn.Linear(2, 2)
    base = type(net)
    parametrize.register_parametrization(net, "weight", Doubled())
    copied = copy.deepcopy(net)
    parametrize.register_parametrization(copied, "bias", Doubled())
    assert isinstance(net.bias, nn.Parameter) and not parametrize.is_parametrized(net, "bias")
    parametrize.remove_parametrizations(copied, "weight")
    assert isinstance(copied.weight, nn.Parameter)
    assert parametrize.is_parametrized(net, "weight")
    with facula.no_grad():
        net.parametrizations.weight.original.fill_(3)
    assert net.weight.tolist() == [[6, 6], [6, 6]] and net(facula.ones(1, 2)).shape == (1, 2)
    parametrize.remove_parametrizations(copied, "bias")
    assert type(copied) is base and parametrize.type_before_parametrizations(net) is base
    parametrize.remove_parametrizations(net, "weight")
    assert type(net) is base and net.weight.tolist() == [[6, 6], [6, 6]]


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_of_sequences(batch_first, side):
    lengths = (3, 0, 5, 1)
    parts = [facula.arange(2.0 * n).view(n, 2).requires_grad_() for n in lengths]
    padded = rnn_utils.pad_sequence(parts, batch_first, -1.0, side)
    expected = np.full((4, 5, 2), -1.0, np.float32)
    for row, n in zip(expected, lengths):
        row[slice(0, n) if side == "right" else slice(5 - n, 5)] = np.arange(2.0 * n).reshape(n, 2)
    np.testing.assert_array_equal(padded.detach().numpy(), expected if batch_first else expected.swapaxes(0, 1))
    assert padded.is_contiguous()
    assert all(g.equal(facula.ones_like(g)) for g in facula.autograd.grad(padded.sum(), parts))
    assert rnn_utils.pad_sequence([facula.tensor([1, 2]), facula.tensor([3])]).tolist() == [[1, 3], [2, 0]]


def test_an_empty_generator_warns_where_it_is_given():
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        nn.utils.clip_grad_norm_((p for p in ()), 1.0)
        nn.utils.clip_grad_norm_([], 1.0)
        nn.utils.clip_grads_with_norm_((p for p in ()), 1.0, facula.tensor(1.0))
    assert [w.filename for w in caught] == [__file__] and str(caught[0].message).startswith("clip_grad_norm_: ")


# calls with other parameters


def test_functional_calls_with_names_that_a_module_has_not():
    class Bar(nn.Module):
        def forward(self, x):
            return x + self.extra

    module = Bar()
    assert facula.func.functional_call(module, {"extra": facula.ones(())}, facula.ones(())).item() == 2
    assert not hasattr(module, "extra")
    layer = nn.Linear(2, 2)
    layer.register_forward_hook(lambda m, args, out: seen.append([n for n, _ in m.named_parameters()]))
    seen = []
    values = {"extra": nn.Parameter(facula.ones(1)), "bias": None}
    facula.func.functional_call(layer, values, facula.ones(2))
    assert seen == [["weight", "extra"]] and layer.bias is not None and not hasattr(layer, "extra")
    with pytest.raises(TypeError, match="got int at 'bias'"):
        facula.func.functional_call(layer, {"bias": 3}, facula.ones(2))
    layer.itself = nn.Sequential()
    layer.itself.add_module("up", layer)
    out = facula.func.functional_call(layer, {"itself.up.bias": facula.zeros(2)}, facula.ones(2), tie_weights=False)
    assert facula.equal(out, layer.weight.sum(1))


def test_registries_of_global_hooks_may_be_replaced(monkeypatch):
    calls = []
    module = nn.modules.module
    handle = module.register_module_forward_hook(lambda *_: calls.append(1))
    nn.ReLU()(facula.ones(1))
    monkeypatch.setattr(module, "_global_forward_hooks", type(module._global_forward_hooks)())
    handle.remove()  # from the dict that it was put into
    nn.ReLU()(facula.ones(1))
    assert calls == [1]


def test_a_named_tuple_passes_backward_hooks():
    import collections

    Pair = collections.namedtuple("Pair", "low high")

    class Makes(nn.Module):
        def forward(self, x):
            return Pair(x * 1, x * 2)

    net, seen = Makes(), []
    net.register_full_backward_hook(lambda m, gi, go: seen.append((len(gi), len(go))))
    out = net(facula.ones(2, requires_grad=True))
    assert type(out) is Pair
    (out.low + out.high).sum().backward()
    assert seen == [(1, 2)]


def test_buffers_of_other_kinds():
    class Like:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return None

    class Old(nn.Module):
        def register_buffer(self, name, value):
            super().register_buffer(name, value, True)

    net = nn.Module()
    net.register_buffer("like", Like())
    assert isinstance(net.like, Like)
    old = Old()
    old.values = nn.Buffer(facula.ones(2))
    assert "values" in dict(old.named_buffers())
    with pytest.raises(RuntimeError, match="no argument persistent"):
        old.more = nn.Buffer(facula.ones(2), persistent=False)
    net.plain = 5
    with pytest.raises(KeyError):
        net.plain = nn.Buffer(facula.ones(2))


def test_rows_of_an_embedding_by_short_indices():
    for kind in (facula.int32, facula.int64):
        layer = nn.Embedding(4, 3, max_norm=1.0)
        with facula.no_grad():
            layer.weight.mul_(100)
        assert (layer(facula.tensor([0, 2], dtype=kind)).norm(dim=1) <= 1.0001).all()
    indices = facula.tensor([7, 1])
    sparse = nn.Embedding(10, 2, sparse=True)
    sparse(indices).sum().backward()
    indices[0] = 8
    assert sparse.weight.grad._indices().tolist() == [[7, 1]]
    with pytest.raises(RuntimeError, match="must be 2-D"):
        nn.functional.embedding(indices, facula.ones(1, 1, 1))


def test_running_statistics_of_one_channel():
    norm = nn.InstanceNorm1d(1, track_running_stats=True, momentum=1.0)
    x = facula.tensor([[[1.0, 3.0]], [[5.0, 7.0]]])
    norm(x)
    assert norm.running_mean.item() == 4.0 and norm.running_var.item() == 2.0


def test_old_backward_hooks_warn_where_they_see_other_gradients():
    class Runs(nn.Module):
        def __init__(self, function):
            super().__init__()
            self.function = function
            self.register_backward_hook(lambda *_: None)

        def forward(self, *args):
            return self.function(*args)

    a, b = facula.rand(2, requires_grad=True), facula.rand(2, requires_grad=True)
    for function, args, text in [
        (lambda l: (l[0] * 1, l[1] * 1), ([a, b],), "Tensors only"), (lambda x, y: [x * 1, y * 1], (a, b), "tuple of Tensors"),
        (lambda x, y: (x * 1, y * 1), (a, b), "different operations"), (lambda x: x * 1 * 2, (a,), "several operations"),
    ]:  # fmt: skip
        with pytest.warns(FutureWarning, match=text):
            Runs(function)(*args)
    Runs(lambda x: x * 2)(a)


def test_hooks_of_loading_do_not_keep_their_module():
    import weakref

    module = nn.Linear(1, 1)
    module._register_load_state_dict_pre_hook(print, with_module=True)
    copied = pickle.loads(pickle.dumps(module._load_state_dict_pre_hooks))
    assert len(copied) == 1
    alive = weakref.ref(module)
    del module, copied
    assert alive() is None


def test_parametrizations_of_several_sources_go_to_a_module_without_the_tensor():
    class RankOne(nn.Module):
        def forward(self, x, y):
            return x.unsqueeze(-1) @ y.unsqueeze(-2)

        def right_inverse(self, matrix):
            u, s, vh = facula.linalg.svd(matrix, full_matrices=False)
            return u[:, 0] * s[0].sqrt(), vh[0] * s[0].sqrt()

    module, other = nn.Module(), nn.Module()
    module.matrix = nn.Parameter(facula.randn(3, 3))
    parametrize.register_parametrization(module, "matrix", RankOne())
    parametrize.transfer_parametrizations_and_params(module, other, "matrix")
    assert facula.equal(module.matrix, other.matrix)
    with pytest.raises(RuntimeError, match="state_dict"):
        facula.save(module, __import__("io").BytesIO())
