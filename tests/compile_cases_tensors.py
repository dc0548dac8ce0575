"""More cases for test_compile_impure.py (compile_cases.py): values, writes, modes and what Python does besides."""

import contextlib
import gc
import io
import logging
import threading
import warnings
import weakref

from compile_cases import case

import facula
from facula import nn

# ---- values


@case
def branches_on_a_value(w):
    def f(x):
        y = x * 3 - 1
        if y.sum() > 0:
            w.log.append("positive")
            return y.exp().clamp(max=5)
        return y.neg() + 1

    w.args = lambda i: (w.tensor(i) + (-1) ** i,)
    return f


@case
def loops_by_a_value(w):
    def f(x, n):
        for i in range(int(n)):
            x = x * 0.5 + i
        return x

    w.args = lambda i: (w.tensor(i), facula.tensor(i % 4))
    return f


@case
def loops_until(w):
    def f(x):
        steps = 0
        while x.abs().max() > 0.5:
            x = x / 2
            steps += 1
        w.log.append(steps)
        return x + 1

    return f


@case
def values_as_lists(w):
    def f(x):
        w.log.append(x.mean(0)[:3].tolist())
        return x * sum(v for v in w.log[-1] if v > 0)

    return f


@case
def number_becomes_a_factor(w):
    def f(x):
        scale = (x.abs() + 1).max().item()
        return x / scale + scale

    return f


@case
def sizes_from_values(w):
    def f(x):
        chosen = x[x > 0.25]
        w.log.append(chosen.numel())
        return chosen.exp() * 2

    return f


@case
def arrays_in_between(w):
    def f(x):
        array = (x.sin() * 2).numpy()
        array[0] += 1
        return facula.from_numpy(array) * 3

    return f


@case
def tensors_iterated(w):
    def f(x):
        parts = [row.sum() * i for i, row in enumerate(x[:4])]
        a, b, *_ = x
        return facula.stack(parts).sum() + a.exp() - b

    return f


@case
def sorted_by_values(w):
    def f(x):
        rows = sorted(x[:4].flip(0), key=lambda row: float(row.sum()))
        return facula.stack(rows).tanh()

    return f


# ---- writes


@case
def writes_to_its_argument(w):
    def f(x):
        y = x.exp()
        x.mul_(2).add_(1)
        return y * x

    held = []
    w.args = lambda i: held.append(w.tensor(i)) or (held[-1],)
    w.between = lambda i: w.log.append(held[-1].clone() if held else None)
    return f


@case
def writes_between_read_and_use(w):
    state = facula.zeros(w.size)

    def f(x):
        waiting = state * 2 + x
        state.add_(x)
        return waiting - state

    return f


@case
def writes_through_views(w):
    def f(x):
        y = x + 1
        y[0].zero_()
        y[:, 1::2] *= -1
        y.view(-1)[3] = 7
        return y.exp()

    return f


@case
def writes_through_data(w):
    weight = nn.Parameter(facula.ones(w.size))

    def f(x):
        y = weight * x
        weight.data.mul_(0.9)
        return y + weight.detach()

    return f


@case
def writes_from_outside(w):
    state = facula.ones(w.size)
    array = state.numpy()

    def between(i):
        array[...] += i

    w.between = between
    return lambda x: state.sqrt() * x + state


@case
def one_tensor_twice(w):
    def f(a, b):
        a = a.add_(1)
        return a * b + b

    def args(i):
        x = w.tensor(i)
        return (x, x) if i % 3 == 0 else (x, x[:]) if i % 3 == 1 else (x, w.tensor(i + 1))

    w.args = args
    return f


@case
def result_is_the_argument(w):
    def f(x, copied):
        return x.clone() if copied else x

    args = {}
    w.args = lambda i: args.setdefault(i, (w.tensor(i), i % 2 == 0))
    return f


@case
def result_is_written_later(w):
    results = []

    def f(x):
        y = x.exp() + 1
        results.append(y)
        return y

    def between(i):
        if results:
            results[-1].mul_(2)
            w.log.append(results[-1].sum())

    w.between = between
    return f


@case
def out_of_ops(w):
    place = facula.empty(w.size)

    def f(x):
        facula.add(x, 1, out=place)
        y = place * 2
        facula.mul(x, x, out=place)
        return y - place

    return f


# ---- output


@case
def prints(w):
    def f(x):
        with contextlib.redirect_stdout(io.StringIO()) as text:
            print("sum", x.sum(), x.shape)
        w.log.append(text.getvalue())
        return x.exp() * 2

    return f


@case
def prints_values_in_between(w):
    def f(x):
        y = x.sin() + 1
        w.log.append(f"{y.mean():.3f} {y[0, 0]}")
        return y * y

    return f


@case
def warns(w):
    def f(x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn("careful", UserWarning, stacklevel=1)
        w.log.append([str(c.message) for c in caught])
        return x.abs().sqrt()

    return f


@case
def logs(w):
    logger = logging.getLogger("facula.test.compile")
    handler = logging.Handler()
    handler.emit = lambda record: w.log.append(record.getMessage())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    w.finish = lambda: logger.removeHandler(handler)

    def f(x):
        logger.info("mean %s", x.mean().item())
        return x.neg().exp()

    return f


# ---- modes, subclasses, Python's own machinery


@case
def autocast_switched(w):
    def f(x, on):
        with facula.autocast("cpu", dtype=facula.bfloat16, enabled=on):
            y = x @ x.t()
        w.log.append(str(y.dtype))
        return y.exp().clamp(max=100)

    w.args = lambda i: (w.tensor(0) / 50, i % 2 == 0)
    return f


@case
def default_dtype_changed(w):
    def f(x):
        facula.set_default_dtype(facula.float64 if len(w.log) % 2 else facula.float32)
        w.log.append(str(facula.get_default_dtype()))
        return x.double() * facula.ones(x.shape[-1]) + 1

    w.finish = lambda: facula.set_default_dtype(facula.float32)
    return f


@case
def subclass_that_watches(w):
    class Watched(facula.Tensor):
        @classmethod
        def __torch_function__(cls, func, kinds, args=(), kwargs=None):
            w.log.append(getattr(func, "__name__", "?"))
            return super().__torch_function__(func, kinds, args, kwargs)

    w.args = lambda i: (w.tensor(i).as_subclass(Watched),)
    return lambda x: (x.sin() + 1) * 2


@case
def inference_mode_within(w):
    def f(x):
        with facula.inference_mode():
            y = x.exp() * 2
        w.log.append(y.is_inference())
        return y

    return f


@case
def vmap_within(w):
    scale = 1.0

    def between(i):
        nonlocal scale
        scale += 0.5

    w.between = between
    return lambda x: facula.vmap(lambda row: (row * scale).softmax(0))(x)


@case
def generator_given_out(w):
    def f(x):
        for i in range(3):
            w.log.append(i)
            yield x * i + len(w.log)

    return lambda x: list(f(x))


@case
def threads_within(w):
    def f(x):
        results = [None, None]

        def work(i):
            results[i] = (x + i).exp() * 2

        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        y = x.sin() + 1
        for thread in threads:
            thread.join()
        return results[0] + results[1] * y

    return f


@case
def weak_references(w):
    def f(x):
        y = x.exp()
        gone = weakref.ref(y)
        z = y * 2
        del y
        gc.collect(0)
        w.log.append(gone() is None)
        return z + 1

    return f


@case
def objects_that_end(w):
    class Ends:
        def __del__(self):
            w.log.append("end")

    def f(x):
        ends = Ends()
        y = x.cos() * 3
        del ends
        return y + len(w.log)

    return f


@case
def recursion(w):
    def f(x, n):
        w.log.append(n)
        return x if n == 0 else f(x * 0.5 + n, n - 1).sin()

    w.args = lambda i: (w.tensor(i), i % 4)
    return f


@case
def compiled_within_compiled(w):
    calls = []

    @facula.compile
    def inner(x):
        calls.append(1)
        return x.exp() * len(calls)

    def f(x):
        w.log.append(len(calls))
        return inner(x) + inner(x + 1)

    return f


@case
def object_with_a_state(w):
    class Runs:
        def __init__(self):
            self.mean = 0.0

        def __call__(self, x):
            self.mean = 0.9 * self.mean + 0.1 * x.abs().mean().item()
            w.log.append(self.mean)
            return x / (self.mean + 1)

    return Runs()


@case
def context_with_an_effect(w):
    @contextlib.contextmanager
    def scope(name):
        w.log.append(f"enter {name}")
        try:
            yield len(w.log)
        finally:
            w.log.append(f"leave {name}")

    def f(x):
        with scope("a") as n:
            y = x * n
        return y.relu() + 1

    return f


@case
def left_out_within(w):
    @facula.compiler.disable
    def note(x):
        w.log.append((x.sum(), facula.compiler.is_compiling()))
        return x * 2

    return lambda x: note(x.exp() + 1) - 1


@case
def gradients_switched_on_arguments(w):
    def f(x):
        y = x * 2
        x.requires_grad_(len(w.log) % 2 == 0)
        w.log.append((y.requires_grad, (x + 1).requires_grad))
        return y

    return f


@case
def attributes_on_tensors(w):
    def f(x):
        y = x.sin() + 1
        y.note = len(w.log)
        w.log.append(y.note)
        return y

    return f
