"""Optimizers on CUDA: many parameters in one launch, steps that graphs replay; compared with the CPU."""

import subprocess
import sys
import textwrap

import pytest
from cuda_environment import environment

RULES = {
    "SGD": [{"momentum": 0.9, "nesterov": True}, {}],
    "Adam": [{"amsgrad": True}],
    "AdamW": [{}],
    "Adamax": [{"weight_decay": 0.1}],
    "NAdam": [{"decoupled_weight_decay": True, "weight_decay": 0.1}],
    "RAdam": [{"weight_decay": 0.1}],
    "Adagrad": [{"lr_decay": 0.1}],
    "Adadelta": [{"maximize": True}],
    "RMSprop": [{"centered": True, "momentum": 0.5}],
    "Rprop": [{}],
    "ASGD": [{"t0": 2, "lambd": 0.1}],
}


def run(program, **more):
    """What the program prints, as lines; it has `facula`, `optim`, `cuda`, and `train` (see there)."""
    source = f"RULES = {RULES}" + textwrap.dedent(
        '''
        import facula, pytest
        from facula import cuda, optim
        def parameters(device, count=70):
            g = facula.Generator().manual_seed(5)
            return [facula.randn(n % 7 + 1, 3, generator=g).to(device).requires_grad_() for n in range(count)]
        def set_grads(ps, step):
            for i, p in enumerate(ps):
                values = facula.arange(p.numel(), dtype=facula.float32).sub(4).mul(0.1).add(0.05 * step + 0.01 * i)
                p.grad = values.reshape(p.shape).to(p.device)
        def train(name, options, device, steps=8):
            ps = parameters(device)
            optimizer = getattr(optim, name)(ps, lr=0.01, **options)
            for step in range(steps):
                set_grads(ps, step)
                optimizer.step()
            return [p.detach().cpu() for p in ps], optimizer
        '''
    )
    done = subprocess.run([sys.executable, "-c", source + textwrap.dedent(program)], env=environment(**more), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_steps_are_those_of_the_cpu():
    assert run(
        """
        for name, all_options in RULES.items():
            for options in all_options:
                there, here = train(name, options, "cuda")[0], train(name, options, "cpu")[0]
                assert all(facula.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(there, here)), name
        print("ok")
        """
    ) == ["ok"]


def test_many_parameters_take_one_launch():
    """One call of the kernel, which queues a launch for 64 parameters."""
    lines = run(
        """
        from facula.profiler import ProfilerActivity, profile
        for name, all_options in RULES.items():
            for foreach in (None, False, True):
                ps = parameters("cuda")
                optimizer = getattr(optim, name)(ps, lr=0.01, foreach=foreach, **all_options[0])
                set_grads(ps, 0)
                optimizer.step()
                with profile(activities=[ProfilerActivity.CUDA]) as p:
                    optimizer.step()
                print(name, sum(row.count for row in p.key_averages() if "optim" in row.key))
        """,
        FACULA_CUDA_DISABLE="cupti",
    )
    assert lines == [f"{name} 1" for name in RULES for _ in range(3)]


def test_capturable_steps_are_replayed():
    assert run(
        """
        for name in RULES:
            if name in ("SGD", "Adagrad"):
                continue
            options = RULES[name][0]
            ps = parameters("cuda", 3)
            optimizer = getattr(optim, name)(ps, lr=0.01, capturable=True, **options)
            set_grads(ps, 0)
            side = cuda.Stream()
            side.wait_stream(cuda.current_stream())
            with cuda.stream(side):
                for _ in range(2):
                    optimizer.step()
            cuda.current_stream().wait_stream(side)
            graph = cuda.CUDAGraph()
            with cuda.graph(graph, stream=side):
                optimizer.step()
            for _ in range(6):
                graph.replay()
            expected = parameters("cpu", 3)
            set_grads(expected, 0)
            reference = getattr(optim, name)(expected, lr=0.01, **options)
            for _ in range(8):
                reference.step()
            for a, b in zip(ps, expected):
                assert facula.allclose(a.detach().cpu(), b.detach(), rtol=1e-4, atol=1e-6), (name, a, b)
            step = optimizer.state[ps[0]]["step"]
            assert step.device == ps[0].device and step.item() == 8, name
            saved = optimizer.state_dict()
            optimizer.load_state_dict(saved)
            assert optimizer.state[ps[0]]["step"].is_cuda
        print("ok")
        """
    ) == ["ok"]


@pytest.mark.parametrize("name", ["Adam", "RMSprop"])
def test_a_capture_of_steps_that_do_not_count_is_refused(name):
    assert run(
        f"""
        ps = parameters("cuda", 2)
        set_grads(ps, 0)
        optimizer = optim.{name}(ps)
        optimizer.step()
        with pytest.raises(RuntimeError, match="^{name}: capturable=True"):
            with cuda.graph(cuda.CUDAGraph()):
                optimizer.step()
        print(ps[0].isfinite().all().item())
        """
    ) == ["True"]


def test_capturable_is_for_parameters_on_a_device():
    assert run(
        """
        for device in ("cpu", "meta"):
            p = facula.ones(3, device=device, requires_grad=True)
            p.grad = facula.ones(3, device=device)
            with pytest.raises(AssertionError, match=f"^NAdam: capturable=True .* got a step on the {device.upper()}"):
                optim.NAdam([p], capturable=True).step()
        print("ok")
        """
    ) == ["ok"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name, options", [("Adam", {"amsgrad": True}), ("SGD", {"momentum": 0.9}), ("SGD", {})])
def test_vectors_give_what_elements_give(name, options, dtype):
    """Parameters that begin at multiples of 16 bytes are read by vectors, others not; what is left over, one by one."""
    assert run(
        f"""
        dtype = facula.{dtype}
        def trained(device, offset):
            g = facula.Generator().manual_seed(1)
            ps = []
            for size in (1, 7, 33, 0, 1023, 1024, 1025, 9001):
                values, grads = (facula.randn(size, generator=g).to(dtype) for _ in range(2))
                room = [facula.zeros(size + offset, dtype=dtype, device=device)[offset:] for _ in range(2)]
                p = facula.nn.Parameter(room[0].copy_(values))
                p.grad = room[1].copy_(grads)
                ps.append(p)
            optimizer = optim.{name}(ps, lr=0.01, **{options})
            for _ in range(3):
                optimizer.step()
            return [p.detach().cpu() for p in ps]
        aligned, others, here = trained("cuda", 0), trained("cuda", 1), trained("cpu", 0)
        assert all(facula.equal(a, b) for a, b in zip(aligned, others))
        tolerance = {{"float16": 2e-3, "bfloat16": 2e-2}}.get("{dtype}", 1e-5)
        assert all(facula.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in zip(aligned, here))
        print("ok")
        """
    ) == ["ok"]
