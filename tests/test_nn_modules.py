"""Modules: registration, hooks, state dicts, conversion and containers."""

import copy
import pickle

import numpy as np
import pytest

import facula
from facula import nn


def array(tensor):
    return tensor.detach().numpy()


def tensor(shape, seed=0):
    return facula.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("scale", facula.ones(1))
        self.register_buffer("scratch", facula.zeros(1), persistent=False)

    def forward(self, x):
        return self.norm(self.first(x)) * self.scale


# -- registration and attributes -----------------------------------------------------------------------------


def test_names_and_order():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == [
        "first.weight",
        "first.bias",
        "norm.weight",
        "norm.bias",
    ]
    buffers = ["scale", "scratch", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]
    assert [n for n, _ in net.named_buffers()] == buffers
    assert [n for n, _ in net.named_modules()] == ["", "first", "norm"]
    assert "scratch" not in net.state_dict() and "scale" in net.state_dict()
    assert {"first", "scale", "forward"} <= set(dir(net))


def test_shared_parameters_are_listed_once():
    layer = nn.Linear(2, 2)
    net = nn.Sequential(layer, nn.ReLU(), layer)
    assert len(list(net.parameters())) == 2
    assert len(list(net.named_parameters(remove_duplicate=False))) == 4
    assert list(net.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_assignment_rules():
    net = Net()
    with pytest.raises(TypeError, match="Net.*first.*got int"):
        net.first = 3
    with pytest.raises(TypeError, match="scale.*got str"):
        net.scale = "x"
    net.first.bias = None
    assert list(net.first.state_dict()) == ["weight"]
    del net.scale
    assert not hasattr(net, "scale")
    with pytest.raises(AttributeError, match="scale"):
        _ = net.scale
    net.extra = nn.Buffer(facula.ones(2), persistent=False)
    assert "extra" in dict(net.named_buffers()) and "extra" not in net.state_dict()


def test_init_must_come_first():
    class Late(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(facula.ones(1))

    with pytest.raises(AttributeError, match="Late"):
        Late()


@pytest.mark.parametrize(
    "name, error", [("a.b", KeyError), ("", KeyError), ("first", KeyError), (3, TypeError)]
)
def test_bad_buffer_names(name, error):
    with pytest.raises(error, match="register_buffer"):
        Net().register_buffer(name, facula.ones(1))


def test_submodules_by_dotted_name():
    net = nn.Sequential(Net(), nn.ReLU())
    assert net.get_submodule("0.first") is net[0].first
    assert net.get_parameter("0.first.weight") is net[0].first.weight
    assert net.get_buffer("0.scale") is net[0].scale
    net.set_submodule("0.first", nn.Identity())
    assert isinstance(net[0].first, nn.Identity)
    with pytest.raises(AttributeError, match="got '0.nothing'"):
        net.get_submodule("0.nothing")
    with pytest.raises(AttributeError):
        net.set_submodule("new", nn.ReLU(), strict=True)


def test_repr():
    assert repr(nn.Linear(3, 4, bias=False)) == "Linear(in_features=3, out_features=4, bias=False)"
    expected = "Sequential(\n  (0): ReLU()\n  (1): Dropout(p=0.5, inplace=False)\n)"
    assert repr(nn.Sequential(nn.ReLU(), nn.Dropout())) == expected
    assert repr(nn.ModuleList([nn.ReLU(), nn.ReLU()])) == "ModuleList(\n  (0-1): 2 x ReLU()\n)"


# -- hooks ---------------------------------------------------------------------------------------------------


def test_forward_hooks_run_in_order_and_replace():
    layer, log = nn.Identity(), []
    layer.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    handle = layer.register_forward_hook(lambda m, args, out: log.append("second"))
    layer.register_forward_hook(lambda m, args, out: (log.append("first"), out * 10)[1], prepend=True)
    assert array(layer(facula.ones(1)))[0] == 20.0
    assert log == ["first", "second"]
    handle.remove()
    layer(facula.ones(1))
    assert log == ["first", "second", "first"]


def test_kwargs_hooks():
    class Scale(nn.Module):
        def forward(self, x, factor=1.0):
            return x * factor

    layer, seen = Scale(), []
    layer.register_forward_pre_hook(lambda m, args, kwargs: (args, {"factor": 4.0}), with_kwargs=True)
    layer.register_forward_hook(lambda m, args, kwargs, out: seen.append(kwargs), with_kwargs=True)
    assert array(layer(facula.ones(1), factor=2.0))[0] == 4.0
    assert seen == [{"factor": 4.0}]


def test_always_called_hook_sees_failure():
    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("forward failed")

    layer, seen = Broken(), []
    layer.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    layer.register_forward_hook(lambda m, args, out: seen.append("never"))
    with pytest.raises(ValueError, match="forward failed"):
        layer(1)
    assert seen == [None]


def test_full_backward_hooks():
    layer, log = nn.Linear(2, 1, bias=False), []
    nn.init.ones_(layer.weight)
    layer.register_full_backward_pre_hook(lambda m, grad_output: (grad_output[0] * 2,))

    def hook(module, grad_input, grad_output):
        log.append((array(grad_input[0]).tolist(), array(grad_output[0]).tolist()))
        return (grad_input[0] * 10,)

    layer.register_full_backward_hook(hook)
    x = facula.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    assert log == [([[2.0, 2.0]], [[2.0]])]
    assert array(x.grad).tolist() == [[20.0, 20.0]]
    assert array(layer.weight.grad).tolist() == [[2.0, 2.0]]


def test_full_backward_hook_without_input_gradient():
    layer, log = nn.Linear(2, 1), []
    layer.register_full_backward_hook(lambda m, gi, go: log.append((gi, len(go))))
    layer(facula.ones(1, 2)).sum().backward()
    assert log == [((None,), 1)]


def test_global_hooks():
    log = []
    handle = nn.modules.module.register_module_forward_hook(lambda m, args, out: log.append(type(m).__name__))
    try:
        nn.Sequential(nn.ReLU())(facula.ones(1))
    finally:
        handle.remove()
    nn.ReLU()(facula.ones(1))
    assert log == ["ReLU", "Sequential"]


# -- state dicts ---------------------------------------------------------------------------------------------


def test_state_dict_round_trip():
    source, target = Net(), Net()
    source(tensor((5, 3)))
    result = target.load_state_dict(source.state_dict())
    assert repr(result) == "<All keys matched successfully>"
    for name, value in source.state_dict().items():
        np.testing.assert_array_equal(array(value), array(target.state_dict()[name]))
    assert source.state_dict()._metadata["norm"] == {"version": 2}


def test_state_dict_shares_memory_and_prefix():
    net = Net()
    entries = net.state_dict(prefix="net.")
    entries["net.first.bias"].zero_()
    assert not array(net.first.bias).any()
    assert all(name.startswith("net.") for name in entries)


def test_load_reports_every_problem():
    net = Net()
    entries = net.state_dict()
    entries["first.weight"] = facula.ones(2, 2)
    entries["unknown"] = facula.ones(1)
    del entries["scale"]
    with pytest.raises(RuntimeError) as error:
        net.load_state_dict(entries)
    text = str(error.value)
    assert "Net" in text and '"scale"' in text and '"unknown"' in text
    assert "size mismatch for first.weight: the module has (4, 3), got (2, 2)" in text
    del entries["first.weight"]
    missing, unexpected = net.load_state_dict(entries, strict=False)
    assert missing == ["scale", "first.weight"] and unexpected == ["unknown"]


def test_load_assign_keeps_requires_grad_and_dtype():
    net = nn.Linear(2, 2)
    net.weight.requires_grad_(False)
    net.load_state_dict({k: v.double() for k, v in net.state_dict().items()}, assign=True)
    assert net.weight.dtype == facula.float64 and not net.weight.requires_grad and net.bias.requires_grad
    assert isinstance(net.weight, nn.Parameter)


def test_state_dict_hooks_and_extra_state():
    class Counter(nn.Module):
        count = 7

        def get_extra_state(self):
            return self.count

        def set_extra_state(self, state):
            self.count = state

    net, log = nn.Sequential(Counter()), []
    net.register_state_dict_pre_hook(lambda m, prefix, keep: log.append("pre"))
    net.register_state_dict_post_hook(lambda m, entries, prefix, meta: log.append("post"))
    net.register_load_state_dict_pre_hook(lambda m, *args: log.append("load pre"))
    net.register_load_state_dict_post_hook(lambda m, keys: log.append("load post"))
    entries = net.state_dict()
    assert entries == {"0._extra_state": 7}
    entries["0._extra_state"] = 9
    net.load_state_dict(entries)
    assert net[0].count == 9 and log == ["pre", "post", "load pre", "load post"]


def test_old_batch_norm_entries_load():
    net = nn.BatchNorm1d(2)
    entries = {k: v for k, v in net.state_dict().items() if k != "num_batches_tracked"}
    net.load_state_dict(dict(entries))
    assert net.num_batches_tracked.item() == 0


# -- conversion and copies -----------------------------------------------------------------------------------


def test_conversion_keeps_parameter_objects():
    net = Net()
    weight = net.first.weight
    net(tensor((4, 3))).sum().backward()
    net.double()
    assert net.first.weight is weight
    assert weight.dtype == weight.grad.dtype == facula.float64
    assert net.norm.num_batches_tracked.dtype == facula.int64
    assert net.to(facula.float32).first.bias.dtype == facula.float32
    with pytest.raises(TypeError, match="got .*int8"):
        net.to(facula.int8)


def test_train_eval_zero_grad_requires_grad():
    net = Net()
    assert not any(m.training for m in net.eval().modules())
    with pytest.raises(ValueError, match="train"):
        net.train(1)
    net(tensor((4, 3))).sum().backward()
    net.zero_grad(set_to_none=False)
    assert not array(net.first.weight.grad).any()
    net.zero_grad()
    assert net.first.weight.grad is None
    assert not any(p.requires_grad for p in net.requires_grad_(False).parameters())


def test_deepcopy_and_pickle():
    net = Net().eval()
    x = tensor((4, 3))
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        np.testing.assert_array_equal(array(other(x)), array(net(x)))
        assert other.first.weight is not net.first.weight
        assert isinstance(other.first.weight, nn.Parameter) and not other.training


def test_parameter_is_a_leaf_that_shares_memory():
    data = facula.ones(2)
    param = nn.Parameter(data)
    data.zero_()
    assert param.requires_grad and param.is_leaf and not array(param).any()
    assert type(param + 1) is facula.Tensor
    assert isinstance(param, nn.Parameter) and not isinstance(data, nn.Parameter)


# -- containers ----------------------------------------------------------------------------------------------


def test_sequential_editing():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    net.append(nn.Tanh())
    net.insert(1, nn.Sigmoid())
    del net[0]
    assert [type(m).__name__ for m in net] == ["Sigmoid", "ReLU", "Tanh"]
    assert list(net._modules) == ["0", "1", "2"]
    assert len(net[1:]) == 2 and len(net + net) == 6 and len(net * 2) == 6
    with pytest.raises(IndexError, match="got 3"):
        net[3]


def test_module_list_and_dict():
    layers = nn.ModuleList(nn.Linear(1, 1) for _ in range(2))
    layers += [nn.ReLU()]
    layers.insert(0, nn.Tanh())
    assert isinstance(layers[0], nn.Tanh) and isinstance(layers[-1], nn.ReLU) and len(layers) == 4
    table = nn.ModuleDict({"a": nn.ReLU()})
    table["b"] = nn.Tanh()
    assert list(table) == ["a", "b"] and "a" in table
    assert isinstance(table.pop("a"), nn.ReLU) and len(table) == 1
    with pytest.raises(ValueError, match="ModuleDict"):
        table.update([("a",)])


def test_parameter_containers():
    values = nn.ParameterList([facula.ones(2), nn.Parameter(facula.zeros(1))])
    values.append(facula.ones(3))
    assert all(isinstance(v, nn.Parameter) for v in values) and list(values.state_dict()) == ["0", "1", "2"]
    table = nn.ParameterDict({"b": facula.ones(1), "a": facula.ones(2)})
    assert list(table) == ["a", "b"] and len(list(table.parameters())) == 2
    with pytest.raises(RuntimeError, match="ParameterDict"):
        table(1)


def test_data_parallel_on_the_cpu_calls_the_module():
    net = nn.DataParallel(nn.Linear(2, 1))
    assert list(net.state_dict()) == ["module.weight", "module.bias"]
    assert net(tensor((3, 2))).shape == (3, 1)
    scattered = nn.parallel.scatter({"x": facula.arange(4)}, ["cpu", "cpu"])
    assert [array(part["x"]).tolist() for part in scattered] == [[0, 1], [2, 3]]
    joined = nn.parallel.gather([facula.ones(1), facula.zeros(2)], "cpu")
    assert array(joined).tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_modules_that_hold_a_function_are_pickled(activation):
    layer = nn.TransformerEncoderLayer(4, 2, 8, activation=activation).eval()
    again = pickle.loads(pickle.dumps(layer))
    x = facula.ones(1, 1, 4)
    assert facula.equal(again(x), layer(x)) and again.activation is layer.activation
