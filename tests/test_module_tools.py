"""Which modules run, tensors that change places, modules in wrappers, what a report says of the machine."""

import subprocess
import sys
import types
import weakref

import pytest

import facula as torch
from facula import nn
from facula.distributed.algorithms._checkpoint import checkpoint_wrapper as wrappers
from facula.utils import collect_env, module_tracker


def test_the_modules_that_run():
    net, seen = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), []
    with module_tracker.ModuleTracker() as tracker:
        net[0].register_forward_pre_hook(lambda *_: seen.append((sorted(tracker.parents), tracker.is_bw)))
        y = net(torch.ones(1, 2, requires_grad=True))
        y.register_hook(lambda grad: seen.append((sorted(tracker.parents), tracker.is_bw)))
        net[0].weight.register_hook(lambda grad: seen.append((sorted(tracker.parents), tracker.is_bw)))
        y.sum().backward()
    assert seen[0] == (["Global", "Sequential", "Sequential.0"], False)
    assert seen[1:] == [(["Global", "Sequential", "Sequential.1"], True), (["Global"], True)]


def test_tensors_change_places():
    a, b = torch.ones(2, requires_grad=True), torch.zeros(3, 4)
    a.tag, a.grad, places = 1, torch.full((2,), 5.0), (id(a), id(b))
    torch.utils.swap_tensors(a, b)
    assert (id(a), id(b)) == places and a.shape == (3, 4) and b.shape == (2,)
    assert b.requires_grad and not a.requires_grad and b.tag == 1 and not hasattr(a, "tag")
    assert a.grad is None and b.grad.tolist() == [5, 5]
    (b * 2).sum().backward()
    assert b.grad.tolist() == [7, 7]


def test_tensors_of_other_classes_and_results_change_places():
    plain, parameter = torch.ones(2), nn.Parameter(torch.zeros(3))
    torch.utils.swap_tensors(plain, parameter)
    assert type(plain) is nn.Parameter and type(parameter) is torch.Tensor and plain.shape == (3,)
    leaf = torch.ones(2, requires_grad=True)
    result, other = leaf * 2, torch.zeros(1)
    torch.utils.swap_tensors(result, other)
    other.sum().backward()
    assert result.grad_fn is None and leaf.grad.tolist() == [2, 2]


def test_tensors_that_cannot_change_places():
    a = torch.ones(2, requires_grad=True)
    kept = weakref.ref(a)
    with pytest.raises(RuntimeError, match="without weak references"):
        torch.utils.swap_tensors(torch.ones(2), a)
    assert kept() is a
    saved = torch.ones(2, requires_grad=True)
    product = saved * saved
    with pytest.raises(RuntimeError, match="other references"):
        torch.utils.swap_tensors(saved, torch.ones(3))
    base = torch.ones(2)
    view = base[:1]
    with pytest.raises(RuntimeError, match="other references"):
        torch.utils.swap_tensors(base, torch.ones(3))
    assert product.shape == (2,) and view.shape == (1,)


def test_a_graph_does_not_reach_a_leaf_that_became_another_tensor():
    layer = nn.Linear(2, 3)
    out = layer(torch.ones(2))
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        weight = layer.weight
        layer.double()
        assert layer.weight is weight and weight.dtype == torch.float64
        with pytest.raises(RuntimeError, match="exchanged after the graph was recorded"):
            out.sum().backward()
        layer(torch.ones(2, dtype=torch.float64)).sum().backward()
        state = {name: value.clone() for name, value in layer.state_dict().items()}
        layer.load_state_dict(state)
        assert layer.weight is weight and weight.grad is None
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    layer.zero_grad()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        assert layer.float().weight is not weight
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)


def gradients(net, x):
    net.zero_grad()
    net(x).sum().backward()
    return [p.grad.clone() for p in net.parameters()]


@pytest.mark.parametrize("impl", list(wrappers.CheckpointImpl))
def test_activations_computed_again(impl):
    calls = []

    class Counted(nn.Linear):
        def forward(self, x):
            calls.append(1)
            return super().forward(x).tanh()

    inner, x = Counted(3, 3), torch.randn(2, 3, requires_grad=True)
    wrapped = wrappers.checkpoint_wrapper(inner, impl)
    expected = gradients(inner, x)
    calls.clear()
    assert all(a.equal(b) for a, b in zip(gradients(wrapped, x), expected, strict=True)) and len(calls) == 2
    assert list(wrapped.state_dict()) == ["weight", "bias"] and wrapped.in_features == 3
    assert [name for name, _ in wrapped.named_parameters()] == ["weight", "bias"]
    assert not wrapped.load_state_dict(nn.Linear(3, 3).state_dict()).missing_keys
    assert wrapped(x=x).requires_grad


def test_wrappers_within_a_model():
    model, x = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU())), torch.randn(3, 2)
    expected, names = gradients(model, x), list(model.state_dict())
    wrappers.apply_activation_checkpointing(model, check_fn=lambda module: isinstance(module, nn.Linear))
    assert isinstance(model[0], wrappers.CheckpointWrapper) and isinstance(model[1][0], wrappers.CheckpointWrapper)
    assert isinstance(model[1], nn.Sequential) and list(model.state_dict()) == names
    assert all(a.equal(b) for a, b in zip(gradients(model, x), expected, strict=True))
    offloaded = wrappers.offload_wrapper(nn.Sequential(nn.Linear(2, 2)))
    assert offloaded[0].weight is next(offloaded.parameters()) and offloaded(x).requires_grad
    wrappers.apply_activation_checkpointing(model, auto_wrap_policy=lambda module, recurse, nonwrapped_numel: nonwrapped_numel > 5)
    assert isinstance(model[1], wrappers.CheckpointWrapper)


def test_a_report_of_the_machine():
    text = collect_env.get_pretty_env_info()
    for part in ("Python version: ", f"Threads: {torch.get_num_threads()}", "numpy==", f"Facula's: {torch.__version__}"):
        assert part in text
    assert collect_env.get_platform() == sys.platform and collect_env.run("echo a; exit 3") == (3, "a", "")
    assert collect_env.get_nvidia_driver_version(lambda command: (0, "1.2\n1.2", "")) == "1.2"
    assert collect_env.get_nvidia_driver_version(lambda command: (1, "", "no")) is None
    done = subprocess.run([sys.executable, "-m", "facula.utils.collect_env"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "Instruction-set level: " in done.stdout


def test_sequences_with_names_are_trees():
    pytree, kinds = torch.utils._pytree, torch.return_types.all_return_types
    assert torch.return_types.max in kinds and torch.return_types.sort in kinds and isinstance(torch.return_types, types.ModuleType)
    torch.return_types.pytree_register_structseq(torch.return_types.aminmax)
    low = pytree.tree_map(lambda t: t + 1, torch.aminmax(torch.tensor([1, 3])))
    assert type(low) is torch.return_types.aminmax and (low.min.item(), low.max.item()) == (2, 4)
