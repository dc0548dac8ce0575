"""Quantization of models: observers, rounding while training, layers put in the places of others; golden values are PyTorch's."""

import copy
import io
import json
import math
import subprocess
import sys
import textwrap
from collections import OrderedDict
from pathlib import Path

import pytest
import quantization_cases as cases

import facula
import facula.ao.nn.intrinsic as nni
import facula.ao.nn.intrinsic.qat as nniqat
import facula.ao.nn.intrinsic.quantized as nniq
import facula.ao.nn.qat as nnqat
import facula.ao.nn.quantized as nnq
import facula.ao.nn.quantized.dynamic as nnqd
from facula import nn
from facula.ao import quantization as quant
from facula.ao.quantization import observer as observers
from facula.ao.quantization import quantization_mappings, utils

DATA = Path(__file__).parent / "data"
GOLDEN = json.loads((DATA / "quantization_golden.json").read_text())
CASES = cases.all_cases()
BY_KIND = {kind: [name for name in CASES if name.startswith(kind)] for kind in ("static", "trained", "dynamic")}
OBSERVERS = [name for name in CASES if "Observer" in name]


@pytest.fixture(autouse=True)
def same_engine():
    before = facula.backends.quantized.engine
    yield
    facula.backends.quantized.engine = before


def near(found, wanted, tolerance=1e-6):
    """Whether numbers agree, and everything else is the same."""
    if isinstance(wanted, list):
        return isinstance(found, (list, tuple)) and len(found) == len(wanted) and all(map(near, found, wanted, [tolerance] * len(wanted)))
    if isinstance(wanted, (int, float)) and isinstance(found, (int, float)):
        return math.isclose(found, wanted, rel_tol=tolerance, abs_tol=tolerance)
    return found == wanted


def few_steps(found, wanted, step):
    """Whether quantized results agree but for one step in a few elements."""
    differences = (facula.tensor(found) - facula.tensor(wanted)).abs()
    return differences.max() < 1.01 * step and (differences > 0.01 * step).sum() <= max(1, differences.numel() // 8)


# ---- against PyTorch


def test_every_case_has_a_golden_value():
    assert CASES.keys() == GOLDEN.keys()


@pytest.mark.parametrize("name", OBSERVERS)
def test_observers_find_what_pytorch_s_find(name):
    assert near(CASES[name](facula), GOLDEN[name])


@pytest.mark.parametrize("name", cases.FAKE)
def test_rounding_while_training(name):
    assert near(CASES[name](facula), GOLDEN[name], 2e-6)


@pytest.mark.parametrize("name", BY_KIND["static"])
def test_a_network_quantized_after_training(name):
    step, result, before, keys, quantized_keys, kinds, steps = CASES[name](facula)
    wanted = GOLDEN[name]
    assert [keys, quantized_keys, kinds] == wanted[3:6]
    assert near(before, wanted[2]) and near(steps, wanted[6])
    assert few_steps(result, wanted[1], step)


@pytest.mark.parametrize("name", BY_KIND["trained"])
def test_a_network_that_trains_with_rounding(name):
    step, result, losses, before, keys = CASES[name](facula)
    wanted = GOLDEN[name]
    assert keys == wanted[4]
    assert near(losses, wanted[2], 1e-4)
    assert near(step, wanted[0], 1e-4) and few_steps(result, wanted[1], step)
    assert few_steps(before, wanted[3], step)


def test_a_linear_layer_that_trains_with_its_normalization():
    step, result, before, gradients, floats = cases.linear_with_norm(facula)
    wanted = GOLDEN["linear_with_norm"]
    assert near(gradients, wanted[3], 1e-3) and near(floats, wanted[4], 1e-5)
    assert few_steps(result, wanted[1], step) and few_steps(before, wanted[2], step)


@pytest.mark.parametrize("name", BY_KIND["dynamic"])
def test_weights_of_eight_and_sixteen_bits(name):
    assert near(CASES[name](facula), GOLDEN[name], 2e-3)


# ---- qconfigs


def test_qconfigs_and_mappings():
    assert quant.qconfig_equals(quant.get_default_qat_qconfig("x86"), quant.get_default_qat_qconfig("fbgemm"))
    assert not quant.qconfig_equals(quant.get_default_qat_qconfig("x86"), quant.get_default_qat_qconfig("x86", 0))
    assert not quant.qconfig_equals(quant.default_qconfig, None)
    mapping = quant.get_default_qconfig_mapping("x86").set_module_name_object_type_order("a", nn.Linear, 1, None)
    again = quant.QConfigMapping.from_dict(mapping.to_dict())
    assert again.to_dict() == mapping.to_dict() and "('a', <class" in repr(again)
    assert again.object_type_qconfigs[nn.Tanh].activation().zero_point.item() == 128
    assert quant.get_default_qat_qconfig_dict()[""] is not None


def test_questions_about_qconfigs():
    config = quant.default_dynamic_qconfig
    assert utils.get_qconfig_dtypes(config) == (facula.quint8, facula.qint8, True)
    assert utils.op_is_int8_dynamically_quantized(config) and utils.get_quant_type(config) is quant.QuantType.DYNAMIC
    assert utils.get_quant_type(quant.default_qconfig) is quant.QuantType.STATIC
    assert utils.get_quant_type(quant.float_qparams_weight_only_qconfig) is quant.QuantType.WEIGHT_ONLY
    with pytest.raises(Exception, match=r"^get_quant_type: dtypes that go together are expected, got torch.float32 and torch.float32"):
        utils.get_quant_type(quant.QConfig(quant.PlaceholderObserver, quant.PlaceholderObserver))
    fake = quant.default_per_channel_weight_fake_quant()
    fake(facula.randn(3, 2))
    assert utils.get_qparam_dict(fake)["axis"] == 0 and utils.get_qparam_dict(fake)["qscheme"] is facula.per_channel_affine


@pytest.mark.parametrize(
    ("use", "error", "text"),
    [
        (lambda: quant.QConfig(quant.MinMaxObserver(), None), ValueError, r"^QConfig: expected the class of an observer.*got the object MinMax"),
        (lambda: quant.get_default_qconfig("arm"), AssertionError, r"^get_default_qconfig: backend must be 'fbgemm', .*got 'arm'$"),
        (lambda: quant.get_default_qat_qconfig("x86", 2), AssertionError, r"Version number must be 0 or 1, got 2$"),
        (lambda: quant.MinMaxObserver(qscheme=facula.per_channel_affine), NotImplementedError, r"the supported qschemes are .* got torch.per_channel"),
        (lambda: quant.PerChannelMinMaxObserver(qscheme=facula.per_tensor_affine), NotImplementedError, r"got torch.per_tensor_affine$"),
        (lambda: quant.HistogramObserver(is_dynamic=True), NotImplementedError, r"there is no dynamic quantization, got"),
        (lambda: quant.MovingAverageMinMaxObserver(is_dynamic=True), NotImplementedError, r"averaging constant of 0.01, got"),
        (lambda: quant.MinMaxObserver(dtype=facula.float32), AssertionError, r"^MinMaxObserver: expected a dtype .* got torch.float32$"),
        (lambda: quant.MinMaxObserver(quant_min=5, quant_max=9), AssertionError, r"must include 0, got 5 to 9$"),
        (lambda: quant.MinMaxObserver(bogus=1), TypeError, r"bogus"),
        (lambda: quant.ObserverBase(facula.quint8), TypeError, r"abstract"),
        (lambda: quant.FakeQuantize(quant_min=-3, quant_max=3), AssertionError, r"^FakeQuantize: quant_min out of bound .*got -3$"),
        (lambda: quant.FakeQuantize(quant_min=3, quant_max=1), AssertionError, r"expected quant_min <= quant_max, got 3 and 1$"),
        (lambda: quant.FusedMovingAvgObsFakeQuantize(observer=quant.MinMaxObserver), AssertionError, r"got MinMaxObserver$"),
        (lambda: quant.FixedQParamsFakeQuantize(quant.MinMaxObserver), AssertionError, r"must be a FixedQParamsObserver, got MinMax"),
        (lambda: utils.to_underlying_dtype(facula.float32), AssertionError, r"^to_underlying_dtype: a quantized dtype is expected, got torch.float32$"),
        (lambda: observers.get_block_size((4, 6), observers.PerGroup(4)), AssertionError, r"a multiple of 4, got \(4, 6\)$"),
        (lambda: observers.get_block_size((4, 6), 3), AssertionError, r"instance of Granularity, got 3$"),
        (lambda: quant.get_fuser_method((nn.ReLU,)), AssertionError, r"did not find fuser method for: .*ReLU"),
        (lambda: nni.ConvReLU2d(nn.Conv1d(1, 1, 1), nn.ReLU()), AssertionError, r"got \['Conv1d', 'ReLU'\]$"),
        (lambda: nnqat.Linear(3, 4), AssertionError, r"^qat\.Linear: qconfig must be provided for QAT module, got None$"),
        (lambda: nnqat.Linear.from_float(nn.ReLU()), AssertionError, r"from_float: a Linear is expected, got ReLU$"),
        (lambda: nnqat.Linear.from_float(nn.Linear(2, 2)), AssertionError, r"the float module needs a qconfig, got None$"),
        (lambda: nnqat.dynamic.Linear(3, 4, qconfig=quant.default_qat_qconfig), ValueError, r"requires a memoryless observer, got"),
        (lambda: nnqat.Embedding(3, 4, qconfig=quant.default_qat_qconfig), AssertionError, r"got torch.per_tensor_symmetric$"),
        (lambda: quant.prepare_qat(nn.Linear(2, 2).eval()), AssertionError, r"expected a model that is training, got training=False$"),
        (lambda: quant.quantize_dynamic(nn.Linear(2, 2), dtype=facula.int8), ValueError, r"^quantize_dynamic: .*got torch.int8$"),
        (lambda: quant.quantize_dynamic(nn.Linear(2, 2), {nn.Linear}, facula.int8), RuntimeError, r"got torch.int8$"),
        (lambda: quant.convert(nn.Linear(2, 2), is_reference=True), NotImplementedError, r"^convert: reference modules .*=True$"),
        (lambda: quant.fuse_conv_bn(False, nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1).eval()), AssertionError, r"got training=True and False$"),
        (lambda: quant.fuse_conv_bn(True, nn.Conv2d(1, 1, 1), nn.BatchNorm2d(2)), AssertionError, r"of 1 channels, got 2$"),
        (lambda: quant.fuse_convtranspose_bn(True, nn.ConvTranspose2d(1, 1, 1), nn.BatchNorm2d(1)), Exception, r"fused after training only"),
        (lambda: quant.get_static_quant_module_class(nn.Bilinear), AssertionError, r"got .*Bilinear"),
    ],
)  # fmt: skip
def test_errors_say_what_came(use, error, text):
    with pytest.raises(error, match=text):
        use()


# ---- models


def small(qconfig, *layers):
    model = quant.QuantWrapper(nn.Sequential(*layers))
    model.qconfig = qconfig
    return model


def test_prepare_leaves_the_model_alone_and_convert_takes_observers_away():
    model = small(quant.default_qconfig, nn.Linear(4, 3), nn.ReLU()).eval()
    prepared = quant.prepare(model)
    assert not hasattr(model.module[0], "activation_post_process") and hasattr(prepared.module[0], "activation_post_process")
    assert not hasattr(prepared.dequant, "activation_post_process") and not hasattr(prepared.module[1], "activation_post_process")
    x = facula.randn(16, 4)
    assert facula.equal(prepared(x), model(x))
    made = quant.convert(prepared)
    assert hasattr(prepared.module[0], "activation_post_process")
    assert not any(hasattr(m, "qconfig") or hasattr(m, "activation_post_process") or m._forward_hooks for m in made.modules())
    assert isinstance(made.module[0], nnq.Linear) and (made(x) - model(x)).abs().max() < 0.1


def test_qconfigs_by_module_and_none():
    model = small(quant.default_qconfig, nn.Linear(4, 4), nn.Linear(4, 3)).eval()
    model.module[1].qconfig = None
    quant.propagate_qconfig_(model)
    assert model.module[1].qconfig is None and model.module[0].qconfig is not None
    with pytest.warns(UserWarning, match="prepare: no module has a qconfig"):
        quant.prepare(nn.Sequential(nn.Linear(2, 2)))


def test_hooks_of_the_program_stay():
    model = small(quant.default_qconfig, nn.Linear(4, 3)).eval()
    seen = []
    model.module[0].register_forward_hook(lambda module, inputs, output: seen.append(type(module).__name__))
    prepared = quant.prepare(model)
    prepared(facula.randn(5, 4))
    quant.convert(prepared)(facula.randn(5, 4))
    assert seen == ["Linear", "Linear"]
    layers = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    layers[0].register_forward_pre_hook(lambda module, inputs: seen.append("before"))
    layers[1].register_forward_hook(lambda module, inputs, output: seen.append("after"))
    quant.fuse_modules(layers, ["0", "1"], inplace=True)(facula.ones(1, 2))
    assert seen[2:] == ["before", "after"] and isinstance(layers[0], nni.LinearReLU)


def test_a_model_that_is_quantized_in_one_call():
    calls = []
    model = small(quant.default_qconfig, nn.Linear(4, 3))
    made = quant.quantize(model, lambda m, data: calls.append(quant.default_eval_fn(m, data)), ([(facula.randn(8, 4), None)],))
    assert isinstance(made.module[0], nnq.Linear) and calls == [None] and not made.training
    model.qconfig = quant.get_default_qat_qconfig("x86")

    def train(m):
        m(facula.randn(8, 4)).sum().backward()

    made = quant.quantize_qat(model, train, ())
    assert isinstance(made.module[0], nnq.Linear) and model.training


def test_wrapping_layers_one_by_one():
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    model[0].qconfig = quant.default_qconfig
    quant.add_quant_dequant(model)
    assert isinstance(model[0], quant.QuantWrapper) and isinstance(model[1], nn.ReLU)


def test_layers_that_need_others_are_refused():
    model = small(quant.default_qconfig, nn.LSTM(3, 3))
    with pytest.raises(NotImplementedError, match=r"^prepare: LSTM and MultiheadAttention need .*got LSTM '0'$"):
        quant.prepare(model)
    model.module[0].qconfig = None
    quant.prepare(model)
    model = small(quant.get_default_qconfig("x86"), nn.ConvTranspose2d(1, 1, 1))
    with pytest.raises(AssertionError, match=r"expected a weight observer per tensor for ConvTranspose2d, got"):
        quant.prepare(model)


def test_modules_of_one_s_own():
    class Mine(nn.Linear):
        @classmethod
        def from_float(cls, mod):
            made = cls(mod.in_features, mod.out_features)
            made.qconfig = mod.qconfig
            return made

    class Quantized(nn.Identity):
        @classmethod
        def from_observed(cls, mod):
            return cls()

    class Kind(nn.Linear):
        pass

    model = small(quant.default_qconfig, Kind(2, 2)).eval()
    prepared = quant.prepare(model, prepare_custom_config_dict={"float_to_observed_custom_module_class": {Kind: Mine}})
    assert type(prepared.module[0]) is Mine and hasattr(prepared.module[0], "activation_post_process")
    prepared(facula.ones(1, 2))
    config = {"observed_to_quantized_custom_module_class": {Mine: Quantized}}
    assert type(quant.convert(prepared, convert_custom_config_dict=config).module[0]) is Quantized


@pytest.mark.parametrize("kind", ["LinearLeakyReLU", "LinearTanh", "ConvAdd2d", "ConvAddReLU2d", "BNReLU2d", "BNReLU3d", "ConvReLU1d"])
def test_containers_become_one_quantized_layer(kind):
    cases.with_engine(facula, "onednn")
    numbers = cases.Numbers(facula, 2)
    linear, image = (nn.Linear(4, 5), (6, 4)), (nn.Conv2d(4, 4, 3, padding=1), (2, 4, 5, 5))
    layers, shape = {
        "LinearLeakyReLU": ((linear[0], nn.LeakyReLU(0.2)), linear[1]),
        "LinearTanh": ((linear[0], nn.Tanh()), linear[1]),
        "ConvAdd2d": ((image[0], facula.add), image[1]),
        "ConvAddReLU2d": ((image[0], facula.add, nn.ReLU()), image[1]),
        "BNReLU2d": ((nn.BatchNorm2d(4), nn.ReLU()), image[1]),
        "BNReLU3d": ((nn.BatchNorm3d(4), nn.ReLU()), (2, 4, 3, 3, 3)),
        "ConvReLU1d": ((nn.Conv1d(4, 4, 3), nn.ReLU()), (2, 4, 6)),
    }[kind]

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inputs = nn.ModuleList([quant.QuantStub() for _ in range(2 if "Add" in kind else 1)])
            self.layer, self.dequant = getattr(nni, kind)(*layers), quant.DeQuantStub()

        def forward(self, *xs):
            return self.dequant(self.layer(*(stub(x) for stub, x in zip(self.inputs, xs))))

    model = numbers.fill(Model()).eval()
    model.qconfig = quant.get_default_qconfig("onednn")
    prepared = quant.prepare(model)
    xs = [numbers(*shape) for _ in range(2 if "Add" in kind else 1)]
    wanted = prepared(*xs)
    made = quant.convert(prepared)
    assert isinstance(made.layer, getattr(nniq, kind))
    assert (made(*xs) - wanted).abs().max() < 4 * made.layer.scale


# ---- training


def test_layers_that_train_become_layers_of_floating_point_again():
    config = quant.get_default_qat_qconfig("x86")
    x = facula.randn(2, 3, 6, 6)
    for kind, layers in {
        "ConvBn2d": (nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)),
        "ConvBnReLU2d": (nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU()),
        "ConvReLU2d": (nn.Conv2d(3, 4, 3), nn.ReLU()),
    }.items():
        container = getattr(nni, kind)(*layers)
        container.qconfig = container[0].qconfig = config
        made = getattr(nniqat, kind).from_float(container)
        made.weight_fake_quant.disable_fake_quant()
        made(x)  # statistics
        made.eval()
        again = made.to_float()
        assert facula.allclose(again(x), made(x), atol=1e-5)
        assert type(again) is {"ConvBn2d": nn.Conv2d}.get(kind, nni.ConvReLU2d)


def test_statistics_are_frozen_and_counted_again():
    container = nni.ConvBn1d(nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3))
    container.qconfig = quant.default_qat_qconfig
    made = nniqat.ConvBn1d.from_float(container)
    model = nn.Sequential(made).apply(nniqat.freeze_bn_stats).train()
    model(facula.randn(4, 2, 5))
    assert made.bn.num_batches_tracked == 0 and not made.bn.training and made.training
    model.apply(nniqat.update_bn_stats)
    model(facula.randn(4, 2, 5))
    assert made.bn.num_batches_tracked == 1 and made.bn.training


def test_state_of_the_first_version_of_a_convolution_with_its_norm():
    made = nniqat.ConvBn2d(1, 2, 1, qconfig=quant.default_qat_qconfig)
    state = made.state_dict()
    old = {"bn.weight": "gamma", "bn.bias": "beta", "bn.running_mean": "running_mean"}
    first = OrderedDict((old.get(key, key), value.clone() + (key == "bn.bias")) for key, value in state.items())
    first._metadata = {**state._metadata, "": {"version": 1}}
    made.load_state_dict(first)
    assert made.bn.bias.tolist() == [1, 1]


def test_embeddings_train_with_rounding():
    model = nn.Sequential(nn.Embedding(6, 4))
    model.qconfig = quant.default_embedding_qat_qconfig
    trained = quant.prepare_qat(model.train(), mapping=quant.get_embedding_qat_module_mappings())
    index = facula.tensor([[1, 5]])
    trained(index).sum().backward()
    assert trained[0].weight.grad.sum(1).tolist() == pytest.approx([0, 4, 0, 0, 0, 4], abs=4.01)
    made = quant.convert(trained.eval(), mapping=quant.get_embedding_static_quant_module_mappings())
    assert isinstance(made[0], nnq.Embedding)
    assert (made(index) - model(index)).abs().max() < 0.02
    bag = nnqat.EmbeddingBag(6, 4, mode="sum", qconfig=quant.default_embedding_qat_qconfig)
    assert (bag(index) - bag.to_float()(index)).abs().max() < 0.05


def test_training_for_dynamic_scales():
    model = nn.Sequential(nn.Linear(4, 3))
    model.qconfig = quant.default_dynamic_qat_qconfig
    trained = quant.prepare_qat(model.train(), mapping={nn.Linear: nnqat.dynamic.Linear})
    x = facula.randn(5, 4)
    wanted = trained(x)
    assert trained[0]._forward_pre_hooks and not trained[0]._forward_hooks  # it is the input that is rounded
    made = quant.convert(trained.eval(), mapping=quant.get_default_dynamic_quant_module_mappings())
    assert isinstance(made[0], nnqd.Linear) and (made(x) - wanted).abs().max() < 0.1


def test_a_network_learns_with_rounding():
    facula.manual_seed(0)
    model = quant.QuantWrapper(nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)))
    model.qconfig = quant.get_default_qat_qconfig("x86")
    model = quant.prepare_qat(quant.fuse_modules_qat(model, ["module.0", "module.1", "module.2"]))
    optimizer = facula.optim.Adam(model.parameters(), lr=0.02)
    images = facula.randn(64, 1, 6, 6)
    target = (images.mean((1, 2, 3)) > 0).long()
    for _ in range(30):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), target).backward()
        optimizer.step()
    made = quant.convert(model.eval())
    assert isinstance(made.module[0], nniq.ConvReLU2d)
    assert (made(images).argmax(1) == target).float().mean() > 0.9


# ---- files, names


def test_models_are_saved_and_copied():
    model = small(quant.get_default_qconfig("x86"), nn.Linear(4, 3)).eval()
    prepared = quant.prepare(model)
    x = facula.randn(7, 4)
    prepared(x)
    made = quant.convert(prepared)
    other = copy.deepcopy(made)
    assert facula.equal(other(x), made(x))
    file = io.BytesIO()
    facula.save(prepared.state_dict(), file)
    file.seek(0)
    again = quant.prepare(model)
    again.load_state_dict(facula.load(file))
    assert facula.equal(quant.convert(again)(x), made(x))


def test_fused_patterns():
    relu_of_linear = (nn.ReLU, nn.Linear)
    assert quant.get_fuser_method_new(relu_of_linear, {(nn.ReLU, utils.MatchAllNode): 1}) == 1
    assert quant.get_fuser_method_new(relu_of_linear, {relu_of_linear: 2, (nn.ReLU, utils.MatchAllNode): 1}) == 2
    mine = quant.fuse_modules(
        nn.Sequential(nn.Linear(2, 2), nn.Tanh()), ["0", "1"],
        fuse_custom_config_dict={"additional_fuser_method_mapping": {(nn.Linear, nn.Tanh): lambda qat, a, b: nni.LinearTanh(a, b)}},
    )  # fmt: skip
    assert isinstance(mine[0], nni.LinearTanh) and isinstance(mine[1], nn.Identity)


def test_classes_and_what_they_become():
    assert quant.get_static_quant_module_class(nn.Conv2d) is nnq.Conv2d
    assert quant.get_dynamic_quant_module_class(nn.Linear, {nn.Linear: nn.Identity}) is nn.Identity
    assert nn.Linear in quantization_mappings.get_default_compare_output_module_list()
    assert utils.getattr_from_fqn(facula, "nn.Linear") is nn.Linear
    assert sorted(utils.get_fqn_to_example_inputs(nn.Sequential(nn.ReLU()), (facula.ones(1),))) == ["", "0"]


def test_old_names_are_the_same_modules():
    program = """
        import sys
        import facula
        print([name for name in sys.modules if name.startswith(("facula.ao", "facula.quantization"))])
        from facula.compat import install
        install()
        from torch.quantization.fuse_modules import fuse_modules
        import torch.ao.quantization.quantize, torch.ao.quantization.fuse_modules, torch.quantization.quantize
        import torch.nn.intrinsic.qat.modules.conv_fused as old, torch.ao.nn.intrinsic.qat.modules.conv_fused as new
        import torch.nn.quantized.dynamic
        ao = torch.ao
        print(torch.ao.quantization.fuse_modules is fuse_modules is torch.quantization.fuse_modules, callable(ao.quantization.quantize))
        print(old is new, torch.nn.quantized.dynamic.Linear is ao.nn.quantized.dynamic.Linear, torch.nn.qat.Linear is ao.nn.qat.Linear)
        from torch.ao.quantization.quantize_fx import prepare_fx
        try:
            prepare_fx(1)
        except NotImplementedError as error:
            print(error)
        """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()
    assert lines[:3] == ["[]", "True True", "True True True"], done.stdout + done.stderr
    assert lines[3].startswith("torch.ao.quantization.quantize_fx.prepare_fx is not supported") and lines[3].endswith("got 1")
