"""Gradient scaling."""

import pickle

import pytest

import facula
from facula import nn
from facula.amp import GradScaler

F16, F32 = facula.float16, facula.float32


def one_parameter(value=1.0, dtype=F32):
    p = nn.Parameter(facula.full((3,), value, dtype=dtype))
    return p, facula.optim.SGD([p], lr=0.1)


def test_scaler_unscales_and_steps():
    p, optimizer = one_parameter()
    scaler = GradScaler("cpu", init_scale=8.0)
    scaler.scale(p.sum()).backward()
    assert p.grad.tolist() == [8.0] * 3
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [1.0] * 3
    with pytest.raises(RuntimeError, match="^GradScaler.unscale_: "):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="^GradScaler.step: "):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="^GradScaler.unscale_: "):
        scaler.unscale_(optimizer)
    scaler.update()
    facula.testing.assert_close(p.detach(), facula.full((3,), 0.9))
    assert scaler.state_dict() == {
        "scale": 8.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000, "_growth_tracker": 1,
    }  # fmt: skip


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_scaler_leaves_out_steps_with_bad_gradients(bad):
    p, optimizer = one_parameter()
    scaler = GradScaler("cpu", init_scale=8.0)
    scaler.scale(facula.ones(1))
    p.grad = facula.tensor([1.0, bad, 2.0])
    assert scaler.step(optimizer) is None
    scaler.update()
    assert p.tolist() == [1.0] * 3 and scaler.get_scale() == 4.0


def test_scaler_grows():
    p, optimizer = one_parameter()
    scaler = GradScaler("cpu", init_scale=8.0, growth_interval=2)
    seen = []
    for _ in range(4):
        p.grad = facula.full((3,), 8.0)
        scaler.scale(facula.ones(1))
        scaler.step(optimizer)
        scaler.update()
        seen.append((scaler.get_scale(), scaler._get_growth_tracker()))
    assert seen == [(8.0, 1), (16.0, 0), (16.0, 1), (32.0, 0)]
    scaler.update(4.0)
    assert scaler.get_scale() == 4.0


def test_scaler_outputs_and_errors():
    p, optimizer = one_parameter()
    scaler = GradScaler("cpu", init_scale=2.0)
    for call in (scaler.update, lambda: scaler.step(optimizer), lambda: scaler.unscale_(optimizer)):
        with pytest.raises(AssertionError, match="scale"):
            call()
    assert [t.item() for t in scaler.scale([facula.ones(1), facula.ones(1)])] == [2.0, 2.0]
    assert isinstance(scaler.scale((facula.ones(1),)), tuple)
    with pytest.raises(ValueError, match="^GradScaler.scale: .*int"):
        scaler.scale(3)
    with pytest.raises(AssertionError, match="a gradient is needed"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="^GradScaler.step: .*closure"):
        scaler.step(optimizer, closure=lambda: 0)
    with pytest.raises(AssertionError, match="growth_factor"):
        GradScaler("cpu", growth_factor=1.0)
    half, half_optimizer = one_parameter(dtype=F16)
    half.grad = facula.ones(3, dtype=F16)
    with pytest.raises(ValueError, match="^GradScaler.unscale_: .*float16"):
        scaler.unscale_(half_optimizer)


def test_scaler_state_round_trip():
    scaler = GradScaler("cpu", init_scale=2.0, growth_interval=7)
    scaler.scale(facula.ones(1))
    other = GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == scaler.state_dict()
    with pytest.raises(RuntimeError, match="^load_state_dict: "):
        other.load_state_dict({})
    disabled = GradScaler("cpu", enabled=False)
    assert disabled.state_dict() == {} and disabled.get_scale() == 1.0
    p, optimizer = one_parameter()
    p.grad = facula.ones(3)
    disabled.step(optimizer)
    disabled.update()
    facula.testing.assert_close(p.detach(), facula.full((3,), 0.9))
