"""Observers, and the op that rounds while training."""

import math

import pytest

import facula
from facula import nn
from facula.ao import quantization as quant
from facula.ao.quantization import observer as observers


@pytest.fixture(autouse=True)
def same_engine():
    before = facula.backends.quantized.engine
    yield
    facula.backends.quantized.engine = before


# ---- observers


def test_observers_return_their_input_and_know_the_last_of_no_elements():
    x = facula.randn(3, 4)
    for kind in (quant.MinMaxObserver, quant.PerChannelMinMaxObserver, quant.HistogramObserver, quant.NoopObserver):
        made = kind()
        assert made(x) is x
        state = {key: value.clone() for key, value in made.state_dict().items()}
        made(facula.empty(0, 4))
        assert all(facula.equal(state[key], value) for key, value in made.state_dict().items())


def test_an_observer_that_has_seen_nothing():
    for kind in (quant.MinMaxObserver, quant.PerChannelMinMaxObserver, quant.HistogramObserver):
        with pytest.warns(UserWarning, match="calculate_qparams: nothing has been observed yet"):
            scale, zero_point = kind().calculate_qparams()
        assert (scale.tolist(), zero_point.tolist()) == ([1.0], [0])


def test_forgetting_what_was_seen():
    for kind in (quant.MinMaxObserver, quant.PerChannelMinMaxObserver):
        made = kind()
        made(facula.randn(3, 4))
        made.reset_min_max_vals()
        assert made.min_val.tolist() == kind().min_val.tolist()


@pytest.mark.parametrize(
    ("inputs", "low", "high", "count"),
    [
        ([[2.0] * 5], 2, 2, 5),
        ([[2.0] * 5, [0.0, 1.0]], 0, 2, 7),
        ([[0.0, 1.0], [0.5] * 3], 0, 1, 5),
        ([[0.0, 1.0], [9.0] * 3], 0, 9, 5),
        ([[math.inf, -1.0, 4.0]], -1, 4, 2),
        ([[math.inf], [1.0, 2.0]], 1, 2, 2),
        ([[0.0] * 4], 0, 0, 4),
    ],
)
@pytest.mark.filterwarnings("ignore:.*infinite values of the input")
def test_histograms_of_single_values_and_infinities(inputs, low, high, count):
    made = quant.HistogramObserver(bins=32)
    for values in inputs:
        made(facula.tensor(values))
    assert (made.min_val.item(), made.max_val.item()) == (low, high)
    assert made.histogram.sum().item() == pytest.approx(count)
    scale, zero_point = made.calculate_qparams()
    assert scale.item() > 0 and 0 <= zero_point.item() <= 255


def test_records():
    made = quant.default_debug_observer()
    made(facula.ones(2))
    made(facula.zeros(3))
    assert [x.tolist() for x in made.get_tensor_value()] == [[1, 1], [0, 0, 0]]
    with pytest.raises(Exception, match=r"^calculate_qparams: RecordingObserver has no such numbers"):
        made.calculate_qparams()


def test_state_of_observers_goes_to_other_shapes():
    given = quant.PerChannelMinMaxObserver()
    given(facula.randn(3, 4))
    taking = quant.PerChannelMinMaxObserver()
    taking.load_state_dict(given.state_dict())
    assert facula.equal(taking.max_val, given.max_val)
    fake = quant.default_per_channel_weight_fake_quant()
    fake(facula.randn(5, 2))
    other = quant.default_per_channel_weight_fake_quant()
    other.load_state_dict(fake.state_dict())
    assert other.scale.shape == (5,) and facula.equal(other.scale, fake.scale)


def test_state_of_first_versions():
    state = {"min_vals": facula.tensor([-1.0, -2.0]), "max_vals": facula.tensor([1.0, 2.0])}
    state = facula.nn.Module().state_dict() | state
    made = quant.PerChannelMinMaxObserver()
    made._load_from_state_dict(state, "", {"version": 1}, True, missing := [], unexpected := [], errors := [])
    assert not (missing or unexpected or errors) and made.min_val.tolist() == [-1, -2]


def test_observers_state_of_a_model():
    model = quant.QuantWrapper(nn.Linear(3, 2)).eval()
    model.qconfig = quant.default_qconfig
    first, second = quant.prepare(model), quant.prepare(model)
    first(facula.randn(9, 3))
    state = quant.get_observer_state_dict(first)
    assert set(state) == {f"{m}.activation_post_process.{b}" for m in ("quant", "module") for b in ("eps", "min_val", "max_val")}
    quant.load_observer_state_dict(second, state)
    assert second.quant.activation_post_process.min_val == first.quant.activation_post_process.min_val
    low = state.pop("quant.activation_post_process.min_val")
    second.quant.activation_post_process.reset_min_max_vals()
    quant.load_observer_state_dict(second, state)  # what is missing stays
    assert second.quant.activation_post_process.min_val == math.inf != low


def test_arguments_given_before():
    made = quant.MinMaxObserver.with_args(dtype=facula.qint8).with_args(eps=0.5)
    assert "dtype=torch.qint8" in repr(made)
    assert made().eps.item() == 0.5 and made(eps=0.25).eps.item() == 0.25
    calls = []
    anew = quant.MinMaxObserver.with_callable_args(factory_kwargs=lambda: calls.append(1) or {"dtype": facula.float64})
    assert anew().min_val.dtype is facula.float64 and len(calls) == 1


@pytest.mark.parametrize(
    ("shape", "granularity", "size"),
    [
        ((4, 6), observers.PerTensor(), (4, 6)),
        ((4, 6), observers.PerAxis(-1), (4, 1)),
        ((2, 4, 6), observers.PerRow(), (1, 1, 6)),
        ((2, 4, 6), observers.PerToken(), (1, 1, 6)),
        ((4, 6), observers.PerGroup(3), (1, 3)),
        ((4, 6), observers.PerBlock((2, 2)), (2, 2)),
    ],
)
def test_parts_that_share_a_scale(shape, granularity, size):
    assert observers.get_block_size(shape, granularity) == size


def test_an_observer_of_parts():
    class Mine(observers.AffineQuantizedObserverBase):
        def forward(self, input):
            return input

        def calculate_qparams(self):
            return facula.ones(1), facula.zeros(1)

    made = Mine.with_args(mapping_type=observers.MappingType.SYMMETRIC, target_dtype=facula.int8)(granularity=observers.PerRow())
    assert (made.quant_min, made.zero_point_domain) == (None, observers.ZeroPointDomain.INT)
    with pytest.raises(NotImplementedError, match=r"^Mine\.convert: graphs \(pt2e\) are not supported, got"):
        made.convert(None, None)


# ---- rounding while training


def test_the_gradient_goes_through_where_a_value_is_not_clamped():
    made = quant.FakeQuantize(observer=quant.MinMaxObserver, quant_min=0, quant_max=3)
    made(facula.tensor([0.0, 3.0]))
    made.disable_observer()
    x = facula.tensor([-1.0, 0.4, 1.6, 9.0], requires_grad=True)
    y = made(x)
    y.backward(facula.tensor([1.0, 2.0, 3.0, 4.0]))
    assert y.tolist() == [0, 0, 2, 3] and x.grad.tolist() == [0, 2, 3, 0]


@pytest.mark.parametrize("name", ["default_fake_quant", "default_fused_act_fake_quant"])
def test_switches(name):
    made = getattr(quant, name)()
    x = facula.tensor([0.1, 0.77, 1.0])
    model = nn.Sequential(made)
    model.apply(quant.disable_fake_quant)
    assert facula.equal(model(x), x) and made.scale.item() != 1.0
    model.apply(quant.enable_fake_quant)
    model.apply(quant.disable_observer)
    scale = made.scale.item()
    assert not facula.equal(model(100 * x), 100 * x) and made.scale.item() == scale
    model.apply(quant.enable_observer)
    model(100 * x)
    assert made.scale.item() > scale


def test_the_op_writes_averages_and_the_scale():
    on, off = facula.ones(1, dtype=facula.int64), facula.zeros(1, dtype=facula.int64)
    low, high = facula.tensor([]), facula.tensor([])
    scale, zero_point = facula.ones(1), facula.zeros(1, dtype=facula.int32)
    x = facula.tensor([[-1.27, 0.5], [2.54, 0.0]])
    y = facula.fused_moving_avg_obs_fake_quant(x, on, off, low, high, scale, zero_point, 0.01, -128, 127, 0, True, True)
    assert facula.equal(y, x) and y is not x
    assert low.tolist() == pytest.approx([-1.27, 0.0]) and high.tolist() == pytest.approx([0.5, 2.54])
    assert scale.tolist() == pytest.approx([1.27 / 128, 2.54 / 255]) and zero_point.tolist() == [0, -128]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (("x", 0, 15, -1), TypeError, r"expected a tensor of floating point, got str$"),
        ((facula.ones(2), 15, 0, -1), RuntimeError, r"expected quant_min < quant_max, got 15 and 0$"),
        ((facula.ones(2), 0, 15, 3), RuntimeError, r"a dimension of the input's 1, got 3$"),
    ],
)
def test_bad_arguments_of_the_op(arguments, error, text):
    x, low, high, axis = arguments
    one = facula.ones(1)
    with pytest.raises(error, match=rf"^fused_moving_avg_obs_fake_quant: .*{text}"):
        facula.fused_moving_avg_obs_fake_quant(x, one, one, one, one, one, one, 0.01, low, high, axis, True)
