"""Mixed precision on CUDA: what an autocast region makes of each op, and loss scaling that waits only where it must."""

import sys
import textwrap

import cuda_kernels
import pytest


def run(program, **more):
    """Return what the program prints, as lines; it has `facula` (as `torch`), `F` and `pytest`."""
    source = "import warnings, pytest, facula as torch\nimport facula.nn.functional as F\n" + textwrap.dedent(program)
    done = cuda_kernels.run([sys.executable, "-c", source], **more)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_ops_run_in_the_dtype_that_suits_them():
    assert run(
        """
        torch.manual_seed(0)
        f16, f32, f64 = torch.float16, torch.float32, torch.float64
        a, b = torch.rand(4, 4, device="cuda"), torch.rand(4, 4, device="cuda")
        h, v = a.half(), torch.rand(4, device="cuda")
        image, weight = torch.rand(1, 2, 4, 4, device="cuda"), torch.rand(3, 2, 3, 3, device="cuda")
        labels = torch.tensor([0, 1, 2, 3], device="cuda")
        lower = {
            "mm": lambda: a @ b, "linear": lambda: F.linear(a, b, v), "mv": lambda: a.mv(v),
            "addmm": lambda: torch.addmm(a, a, b),
            "addr": lambda: torch.addr(a, v, v), "conv2d": lambda: F.conv2d(image, weight),
            "prelu": lambda: F.prelu(a, v[:1]),
            "einsum": lambda: torch.einsum("ij,kj->ik", a, b), "chain_matmul": lambda: torch.linalg.multi_dot([a, b,
            a]),
            "attention": lambda: F.scaled_dot_product_attention(a[None], b[None], a[None]),
            "vecdot": lambda: torch.linalg.vecdot(a, b),
            "lstm_cell": lambda: torch.lstm_cell(a, (b, b), torch.rand(16, 4, device="cuda"), torch.rand(16, 4,
            device="cuda"))[0],
        }
        wide = {
            "exp": h.exp, "pow": lambda: h**2, "sum": h.sum, "sum dim": lambda: h.sum(0),
            "softmax": lambda: h.softmax(-1),
            "log_softmax": lambda: F.log_softmax(h, -1), "layer_norm": lambda: F.layer_norm(h, (4,)), "norm": h.norm,
            "group_norm": lambda: F.group_norm(h, 2), "cumsum": lambda: h.cumsum(0), "prod": h.prod,
            "mse": lambda: F.mse_loss(h, h),
            "nll": lambda: F.nll_loss(h, labels), "cross_entropy": lambda: F.cross_entropy(h, labels),
            "softplus": lambda: F.softplus(h),
            "rms_norm": lambda: F.rms_norm(h, (4,)), "logsumexp": lambda: h.logsumexp(0), "l1": lambda: F.l1_loss(h,
            h),
            "bce": lambda: F.binary_cross_entropy_with_logits(h, h), "resize": lambda: F.interpolate(image.half(),
            scale_factor=2),
            "cosine": lambda: F.cosine_similarity(h, h), "reciprocal": h.reciprocal, "cdist": lambda: torch.cdist(h,
            h),
        }
        promote = {
            "addcmul": lambda: torch.addcmul(a, h, h), "dot": lambda: v.half().dot(v),
            "atan2": lambda: torch.atan2(h, a), "scatter_add": lambda: a.scatter_add(0, labels[None], h[:1]),
            "index_put": lambda: a.index_put((labels,), h), "bilinear": lambda: F.bilinear(a, h, torch.rand(2, 4, 4,
            device="cuda")),
            "tensordot": lambda: torch.tensordot(a, h),
        }
        same = {"relu": h.relu, "mul": lambda: h * h, "mean": h.mean, "tanh": h.tanh, "max": h.max,
                "batch_norm": lambda: F.batch_norm(h, v, v), "gelu": lambda: F.gelu(h), "var": h.var,
                "cat": lambda: torch.cat([h, h])}
        with torch.autocast("cuda"):
            for kind, ops, expected in (("lower", lower, f16), ("float32", wide, f32), ("promote", promote, f32),
                ("same", same, f16)):
                print(kind, *(name for name, op in ops.items() if op().dtype != expected))
            print((a.double() @ b.double()).dtype, torch.dot(v.half(), v.half()).dtype)
            out = torch.empty(4, 4, device="cuda")
            print(torch.mm(a, b, out=out).dtype, a.clone().exp_().dtype, (a.cpu() @ b.cpu()).dtype)
            with torch.autocast("cuda", enabled=False):
                print((a @ b).dtype)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                print((a @ b).dtype)
            with pytest.raises(RuntimeError, match="^binary_cross_entropy: its results overflow in float16"):
                F.binary_cross_entropy(a, b)
        print((a @ b).dtype, F.binary_cross_entropy(a, b).dtype)
        with torch.autocast("cpu"):
            print((a @ b).dtype, (a.cpu() @ b.cpu()).dtype, h.exp().dtype)
        """
    ) == [
        "lower", "float32", "promote", "same", "torch.float64 torch.float16",
        "torch.float32 torch.float32 torch.float32",
        "torch.float32", "torch.bfloat16", "torch.float32 torch.float32",
        "torch.float32 torch.bfloat16 torch.float16",
    ]  # fmt: skip


def test_gradients_arrive_in_the_weights_dtype_and_weights_are_cast_once():
    assert run(
        """
        layer = torch.nn.LSTM(3, 4).cuda()
        w = torch.rand(3, 3, device="cuda", requires_grad=True)
        with torch.autocast("cuda"):
            y, (h, c) = layer(torch.rand(5, 2, 3, device="cuda") @ w)
            assert (w @ w).dtype == torch.float16
            loss = y.sum()
        loss.backward()
        print(y.dtype, h.dtype, loss.dtype, w.grad.dtype, layer.weight_hh_l0.grad.dtype, bool(w.grad.abs().sum() > 0))
        """
    ) == ["torch.float16 torch.float16 torch.float32 torch.float32 torch.float32 True"]


def test_functions_of_programs_say_how_they_run():
    assert run(
        """
        class Product(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
            def forward(ctx, a, b):
                ctx.save_for_backward(a, b)
                print(a.dtype, torch.is_autocast_enabled("cuda"))
                return a @ b

            @staticmethod
            @torch.amp.custom_bwd(device_type="cuda")
            def backward(ctx, grad):
                a, b = ctx.saved_tensors
                print(grad.dtype, torch.is_autocast_enabled("cuda"))
                return grad @ b.T, a.T @ grad

        a = torch.rand(2, 2, device="cuda", dtype=torch.float16, requires_grad=True)
        with torch.autocast("cuda"):
            product = Product.apply(a, a)
            product.sum().backward()
        print(product.dtype, a.grad.dtype)
        with pytest.warns(FutureWarning, match="cuda.amp.autocast"), torch.cuda.amp.autocast():
            print((a @ a).dtype)
        """
    ) == [
        "torch.float32 False", "torch.float32 False", "torch.float32 torch.float16", "torch.float16",
    ]  # fmt: skip


def test_the_scaler_adapts_and_waits_once_a_step():
    assert run(
        """
        p = torch.nn.Parameter(torch.ones(3, device="cuda"))
        q = torch.nn.Parameter(torch.ones(5, 4, device="cuda").t())  # dense, not contiguous
        none = torch.nn.Parameter(torch.ones(2, device="cuda"))
        optimizer = torch.optim.SGD([p, q, none], lr=0.5)
        scaler = torch.amp.GradScaler("cuda", init_scale=4.0, growth_interval=2)
        def step(factor=1.0):
            optimizer.zero_grad()
            scaler.scale(((p * factor).sum() + q.sum())).backward()
            with warnings.catch_warnings(record=True) as waits:
                warnings.simplefilter("always")
                torch.cuda.set_sync_debug_mode("warn")
                scaler.step(optimizer)
                scaler.update()
                torch.cuda.set_sync_debug_mode("default")
            print(scaler.get_scale(), p[0].item(), q[0, 0].item(), scaler._get_growth_tracker(), len(waits))
        step()
        step()
        step(float("inf"))
        step()
        scaler.scale(p.sum() + q.sum()).backward()
        scaler.unscale_(optimizer)
        print(p.grad[0].item(), q.grad[0, 0].item())  # on top of the last step's
        other = torch.cuda.amp.GradScaler()
        other.load_state_dict(scaler.state_dict())
        print(other.get_scale())
        """
    ) == ["4.0 0.5 0.5 1 1", "8.0 0.0 0.0 0 1", "4.0 0.0 0.0 0 1", "4.0 -0.5 -0.5 1 1", "1.25 1.25", "4.0"]


@pytest.mark.slow
def test_unscaling_many_tensors_of_many_dtypes():
    assert run(
        """
        torch.manual_seed(1)
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            grads = [torch.randn(n % 7, 3, device="cuda").to(dtype) for n in range(200)] + [torch.randn(70000,
                device="cuda").to(dtype)]
            grads.append(torch.randn(6, 6, device="cuda").to(dtype)[::2])  # with holes
            before = [g.clone() for g in grads]
            found, factor = torch.zeros((), device="cuda"), torch.full((), 0.25, device="cuda")
            torch._amp_foreach_non_finite_check_and_unscale_(grads, found, factor)
            print(all(torch.equal(g, b * 0.25) for g, b in zip(grads, before)), found.item(), end=" ")
            grads[-2][69999] = float("nan")
            torch._amp_foreach_non_finite_check_and_unscale_(grads, found, factor)
            print(found.item())
        mixed = [torch.ones(2, device="cuda"), torch.ones(2, device="cuda", dtype=torch.float16)]
        found.zero_()
        torch._amp_foreach_non_finite_check_and_unscale_(mixed, found, factor)
        print([m[0].item() for m in mixed], found.item())
        scale, steps = torch.full((), 3e38, device="cuda"), torch.full((), 4, device="cuda", dtype=torch.int32)
        torch._amp_update_scale_(scale, steps, found, 2.0, 0.5, 5)  # would be infinite
        print(scale.item() == torch.tensor(3e38).item(), steps.item())
        with pytest.raises(RuntimeError, match="^_amp_update_scale_: found_inf is one element of float32 on cuda:0"):
            torch._amp_update_scale_(scale, steps, torch.zeros(()), 2.0, 0.5, 5)
        with pytest.raises(RuntimeError, match="floating-point gradients on cuda:0, got one of int64"):
            torch._amp_foreach_non_finite_check_and_unscale_([torch.ones(1, device="cuda", dtype=torch.int64)],
                found, factor)
        """
    ) == ["True 0.0 1.0"] * 4 + ["[0.25, 0.25] 0.0", "True 0"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_unscaling_finds_what_is_not_finite_wherever_it_is(dtype):
    """Among whole vectors and behind them, of tensors that begin at multiples of 16 bytes and of others."""
    assert run(
        f"""
        dtype = torch.{dtype}
        generator = torch.Generator().manual_seed(3)
        wrong = []
        found, factor = torch.zeros((), device="cuda"), torch.full((), 0.3, device="cuda")
        def unscaled(values, offset, by=factor):
            there = torch.zeros(values.numel() + offset, dtype=dtype, device="cuda")[offset:]
            there.copy_(values)
            found.zero_()
            torch._amp_foreach_non_finite_check_and_unscale_([there, torch.ones(3, device="cuda", dtype=dtype)], found, by)
            return there.cpu(), found.item()
        for size in (1, 7, 33, 1023, 1024, 1025, 40_003):
            x = torch.randn(size, generator=generator).to(dtype)
            expected = x.clone()
            torch._amp_foreach_non_finite_check_and_unscale_([expected], torch.zeros(()), factor.cpu())
            for offset in (0, 1):
                values, bad = unscaled(x, offset)
                wrong += [(size, offset)] * (not torch.equal(values, expected) or bad != 0)
                values, bad = unscaled(x, offset, torch.ones((), device="cuda"))
                wrong += [(size, offset, 1.0)] * (not torch.equal(values, x) or bad != 0)
            for at in {{0, size // 2, size - 1, max(size - 9, 0)}}:
                for value in (float("inf"), float("-inf"), float("nan")):
                    y = x.clone()
                    y[at] = value
                    for offset in (0, 1):
                        for by in (factor, torch.ones((), device="cuda")):
                            wrong += [(size, at, value, offset)] * (unscaled(y, offset, by)[1] != 1)
        print(wrong)
        """
    ) == ["[]"]
