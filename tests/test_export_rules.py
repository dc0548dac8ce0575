"""Rules of run_decompositions with arguments that are not the defaults: results, dtypes and shapes are those of the op."""

import copy

import numpy as np
import pytest

import facula
import facula.nn.functional as F
from facula import export, nn


def r(*sizes):
    return facula.randn(*sizes)


NAN = float("nan")
facula.manual_seed(3)
CASES = {
    "zeros_like": (lambda x: (facula.zeros_like(x, dtype=facula.int64), facula.ones_like(x, dtype=facula.float64)), (r(2, 3),)),
    "softmax dtype": (lambda x: (F.softmax(x, 1, dtype=facula.float64), F.log_softmax(x, 0, dtype=facula.float64)), (r(2, 3),)),
    "softplus": (lambda x: F.softplus(x*30, 2.0, 5.0), (r(4, 5),)),
    "softplus big": (lambda x: F.softplus(x*1000), (r(4, 5),)),
    "mish big": (lambda x: F.mish(x*1000), (r(4, 5),)),
    "glu 0": (lambda x: F.glu(x, 0), (r(4, 5),)),
    "prelu1": (lambda x: F.prelu(x, facula.tensor([0.2])), (r(4, 5),)),
    "prelu 1d": (lambda x, w: F.prelu(x, w), (r(5), r(1))),
    "baddbmm": (lambda x, a, b: facula.baddbmm(x, a, b, beta=0.5, alpha=2), (r(2, 3, 5), r(2, 3, 4), r(2, 4, 5))),
    "baddbmm b0": (lambda x, a, b: facula.baddbmm(x*NAN, a, b, beta=0), (r(2, 3, 5), r(2, 3, 4), r(2, 4, 5))),
    "matmul": (lambda a, b, c, d: (a@b, b@a, c@d, d@a, a@a), (r(4), r(5, 4, 4)[0], r(3, 1, 2, 4), r(5, 4, 4))),
    "linear 1d": (lambda x, w, b: (F.linear(x, w, b), F.linear(x, w)), (r(4), r(3, 4), r(3))),
    "linear 3d": (lambda x, w, b: (F.linear(x, w, b), F.linear(x, w)), (r(2, 5, 4), r(3, 4), r(3))),
    "sdpa scale": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3), (r(2, 2, 4, 8), r(2, 2, 6, 8), r(2, 2, 6, 8))),
    "sdpa causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), (r(2, 2, 4, 8), r(2, 2, 6, 8), r(2, 2, 6, 8))),
    "sdpa mask": (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), (r(2, 2, 4, 8), r(2, 2, 6, 8), r(2, 2, 6, 8), r(4, 6))),
    "sdpa gqa": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), (r(2, 4, 4, 8), r(2, 2, 6, 8), r(2, 2, 6, 8))),
    "sdpa all masked": (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m>100), (r(2, 2, 4, 8), r(2, 2, 6, 8), r(2, 2, 6, 8), r(4, 6))),
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b, 2, 3, 2, 2), (r(2, 4, 20), r(6, 2, 3), r(6))),
    "conv2d same": (lambda x, w: F.conv2d(x, w, padding="same"), (r(2, 4, 8, 8), r(6, 4, 3, 3))),
    "conv2d valid": (lambda x, w: F.conv2d(x, w, padding="valid", dilation=(1, 2)), (r(2, 4, 8, 8), r(6, 4, 3, 3))),
    "conv2d unbatched": (lambda x, w: F.conv2d(x, w), (r(4, 8, 8), r(6, 4, 3, 3))),
    "bn eval": (lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b), (r(3, 4, 5), r(4), r(4), r(4), r(4).abs())),
    "bn eval none": (lambda x, m, v: F.batch_norm(x, m, v), (r(3, 4, 5), r(4), r(4).abs())),
    "bn nostat": (lambda x: F.batch_norm(x, None, None, training=True), (r(3, 4, 5),)),
    "ln": (lambda x, w: F.layer_norm(x, (4, 5), w, None, 0.1), (r(3, 4, 5), r(4, 5))),
    "gn": (lambda x, w: F.group_norm(x, 2, w, None, 0.1), (r(3, 4, 5, 2), r(4))),
    "rms": (lambda x, w: (F.rms_norm(x, (4, 5), w), F.rms_norm(x, (5,), None, 0.1)), (r(3, 4, 5), r(4, 5))),
    "rms half": (lambda x: F.rms_norm(x, (5,)), (r(3, 4, 5).half(),)),
    "std": (lambda x: (facula.std(x), facula.std(x, dim=0, correction=0), facula.std(x, dim=(0, 1), keepdim=True)), (r(3, 4),)),
    "masked_fill": (lambda x, m: (x.masked_fill(m>0, 3), x.masked_fill(m>0, facula.tensor(2.5))), (r(3, 4), r(4))),
    "masked_fill int": (lambda x, m: x.masked_fill(m>0, 3.7), (facula.arange(4), r(4))),
    "lerp": (lambda a, b, w: (facula.lerp(a, b, w), facula.lerp(a, b, 0.7)), (r(3), r(3), r(3))),
    "addc": (lambda a, b, c: (facula.addcmul(a, b, c, value=0.5), facula.addcdiv(a, b, c, value=-2)), (r(3), r(3), r(3))),
    "square int": (lambda x: facula.square(x), (facula.arange(4),)),
    "split": (lambda x: (x.split(2, 1)+x.split([1, 4], 1)+x.chunk(4, 1)+x.chunk(3, 0)), (r(3, 5),)),
    "unbind": (lambda x: x.unbind(-1), (r(3, 2),)),
    "narrow": (lambda x: (x.narrow(1, 1, 3), x.narrow(-1, -3, 2)), (r(3, 5),)),
    "t": (lambda x: (x.t(), x[0].t(), x.transpose(-1, 0), x[0, 0].transpose(0, 0)), (r(3, 5),)),
    "zeros": (lambda x: (facula.zeros(2, 3)+facula.ones(3, dtype=facula.float64), facula.zeros((), dtype=facula.bool)), (r(3),)),
    "to": (lambda x: (x.to(facula.float64), x.to(facula.float16), x.to(facula.float32), x.type_as(facula.ones(1, dtype=facula.int32))), (r(3),)),
    "contig": (lambda x: (x.t().contiguous(), x.contiguous()), (r(3, 4),)),
    "stack": (lambda x: (facula.stack([x, x], -1), facula.stack([x, x+1], 1)), (r(3, 4),)),
    "aap": (lambda x: (F.adaptive_avg_pool2d(x, (2, 3)), F.adaptive_avg_pool2d(x, 1)), (r(2, 3, 7, 7),)),
    "hards int": (lambda x: (F.hardswish(x*4), F.hardsigmoid(x*4)), (r(20),)),
    "silu": (lambda x: F.silu(x*50), (r(20),)),
    "detach": (lambda x: x.detach()*x, (r(3),)),
}  # fmt: skip


class Net(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def results(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


@pytest.mark.parametrize("name", CASES)
def test_rule(name):
    function, args = CASES[name]
    core = export.export(Net(function), args).run_decompositions()
    for got, wanted in zip(results(core.module()(*args)), results(function(*args)), strict=True):
        assert got.dtype == wanted.dtype and got.shape == wanted.shape
        tolerance = 2e-3 if got.dtype == facula.float16 else 2e-5
        np.testing.assert_allclose(got.double().numpy(), wanted.double().numpy(), rtol=tolerance, atol=tolerance)


def test_statistics_of_batch_norm_are_written():
    net, x = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2)), r(5, 4)
    twin = copy.deepcopy(net)
    module = export.export(net, (x,)).run_decompositions().module()
    np.testing.assert_allclose(module(x).detach().numpy(), twin(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    for name, value in module.state_dict().items():
        np.testing.assert_allclose(value.numpy(), twin.state_dict()[name].numpy(), rtol=1e-5, atol=1e-6)
    assert twin[0].num_batches_tracked == 1 and twin[0].running_mean.abs().sum() > 0


def test_attention_with_dropout_draws_as_dropout_of_its_weights_does():
    q, k, v = r(2, 2, 5, 4), r(2, 2, 6, 4), r(2, 2, 6, 3)
    attend = Net(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.4))
    core = export.export(attend, (q, k, v)).run_decompositions()
    assert {n[1] for n in core.program.nodes} >= {"native_dropout.default", "_softmax.default", "bmm.default"}
    facula.manual_seed(3)
    found = core.module()(q, k, v)
    facula.manual_seed(3)
    wanted = F.dropout((q @ k.transpose(-2, -1) / 2).softmax(-1), 0.4) @ v
    facula.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
