"""Operators that programs define: kernels below and under autograd, rules for batches and autocast."""

import pytest
from compat_runs import run

import facula


def test_libraries_hold_operators():
    from facula import library

    lib = library.Library("mylib", "DEF")
    lib.define("twice(int x) -> int")
    lib.impl("twice", lambda x: 2 * x, "CPU")
    assert library.find("mylib", "twice")(4) == 8
    library.register_fake("mylib::not_defined")(lambda x: x)
    with pytest.raises(NotImplementedError, match="not_defined"):
        library.find("mylib", "not_defined")(1)
    assert library.find("mylib", "nothing") is None


def test_kernels_below_autograd_are_not_recorded_and_backward_says_so():
    from facula import library

    lib = library.Library("belowlib", "DEF")
    lib.define("double(Tensor x) -> Tensor")
    lib.impl("double", lambda x: x.detach() * 2, "CPU")
    double = facula.ops.belowlib.double
    x = facula.ones(2, requires_grad=True)
    assert not double(x.detach()).requires_grad
    y = double(x)
    assert y.requires_grad
    with pytest.raises(RuntimeError, match="^belowlib::double: backward needs a derivative and none is registered"):
        y.sum().backward()
    with facula.no_grad():
        assert double(x).tolist() == [2, 2] and not double(x).requires_grad
    lib.define("recorded(Tensor x) -> Tensor")
    lib.impl("recorded", lambda x: x * 3, "CompositeImplicitAutograd")
    facula.ops.belowlib.recorded(x).sum().backward()
    assert x.grad.tolist() == [3, 3]
    with pytest.raises(NotImplementedError, match=r"got \['Nonsense'\]"):
        lib.impl("recorded", lambda x: x, "Nonsense")


def test_kernels_under_autograd_come_first():
    assert run(
        """
        import torch

        lib = torch.library.Library("uplib", "DEF")
        lib.define("twice(Tensor x) -> Tensor")
        lib.impl("twice", lambda x: x * 2, "CPU")

        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                with torch._C._AutoDispatchBelowAutograd():
                    return torch.ops.uplib.twice(x)

            @staticmethod
            def backward(ctx, grad):
                return grad * 7

        lib.impl("twice", lambda x: Twice.apply(x), "Autograd")
        x = torch.ones(2, requires_grad=True)
        y = torch.ops.uplib.twice(x)
        y.sum().backward()
        print(*y.tolist(), *x.grad.tolist())

        @torch._custom_ops.impl("uplib::twice")
        def thrice(x):
            return x * 3
        with torch._C._AutoDispatchBelowAutograd():
            print(*torch.library.find("uplib", "twice")._kernels["cpu"](x).tolist())
        """,
        option="-c",
    ) == ["2.0", "2.0", "7.0", "7.0", "3.0", "3.0"]


def test_custom_operators_have_rules_for_batches_and_autocast():
    from facula import library

    seen = []

    @library.custom_op("batchlib::scale", mutates_args=(), device_types="cpu")
    def scale(x: facula.Tensor, factor: float = 2.0) -> facula.Tensor:
        seen.append((tuple(x.shape), x.dtype))
        return facula.from_numpy(x.detach().numpy() * factor)

    @scale.register_vmap
    def rule(info, in_dims, x, factor):
        assert info.batch_size == 3 and in_dims[1] is None
        return scale(x.movedim(in_dims[0], 0), factor), 0

    def keep(ctx, inputs, output):
        ctx.factor = inputs[1]

    scale.register_autograd(lambda ctx, grad: (grad * ctx.factor, None), setup_context=keep)
    batch = facula.arange(6.0).reshape(2, 3)
    assert facula.vmap(scale, in_dims=1)(batch).tolist() == (2 * batch.T).tolist() and seen == [((3, 2), facula.float32)]
    x = facula.ones(2, requires_grad=True)
    scale(x, 5.0).sum().backward()
    assert x.grad.tolist() == [5, 5]
    scale.register_autocast("cpu", facula.float16)
    with facula.autocast("cpu"):
        assert scale(facula.ones(2)).dtype == facula.float16
    assert scale(facula.ones(2)).dtype == facula.float32
    assert library.opcheck(scale, (x,), test_utils="test_schema") == {"test_schema": "SUCCESS"}
