"""More cases for test_compile_impure.py (compile_cases.py): modules, gradients and sizes."""

import copy
import functools
from collections import namedtuple

from compile_cases import case

import facula
from facula import nn

# ---- modules: hooks, modes, parameters


def network(w):
    return nn.Sequential(nn.Linear(w.size[-1], 8), nn.GELU(), nn.Linear(8, 4))


@case
def hook_added_and_removed(w):
    model = network(w)
    handles = []

    def hook(module, args, result):
        w.log.append(result.sum())
        return result * 2

    def between(i):
        if i == 3:
            handles.append(model[0].register_forward_hook(hook))
        if i == 12:
            handles.pop().remove()

    w.between = between
    return model


@case
def hook_before_changes_the_input(w):
    model = network(w)
    model.register_forward_pre_hook(lambda module, args: (args[0] + len(w.log),))
    model.register_forward_hook(lambda module, args, result: w.log.append(args[0].mean()))
    return model


@case
def hook_on_gradients(w):
    model = network(w)

    def f(x):
        x = x.clone().requires_grad_()
        y = model(x)
        y.register_hook(lambda g: w.log.append(g.sum()))
        x.register_hook(lambda g: g * 3)
        y.exp().sum().backward()
        return x.grad

    return f


@case
def backward_hook_of_a_module(w):
    model = network(w)
    model[1].register_full_backward_hook(lambda m, gi, go: w.log.append((gi[0].sum(), go[0].sum())))

    def f(x):
        model.zero_grad()
        (model(x) ** 2).mean().backward()
        return [p.grad.clone() for p in model.parameters()]

    return f


@case
def train_and_eval(w):
    model = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(w.size[-1]), nn.Dropout(0.25))
    w.between = lambda i: model.train(i % 3 != 2)
    return model


@case
def running_statistics(w):
    model = nn.BatchNorm1d(w.size[-1])
    w.between = lambda i: w.log.append((model.running_mean.clone(), model.num_batches_tracked.clone()))
    return model


@case
def buffer_registered_late(w):
    model = nn.Module()

    def f(x):
        if not hasattr(model, "mean"):
            model.register_buffer("mean", x.mean(0))
        model.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - model.mean

    w.between = lambda i: w.log.append(sorted(model.state_dict()))
    return f


@case
def parameter_replaced(w):
    model = nn.Linear(w.size[-1], 3)

    def between(i):
        if i % 6 == 5:
            model.weight = nn.Parameter(facula.full((3, w.size[-1]), 0.01 * i))

    w.between = between
    return model


@case
def parameter_frozen(w):
    model = nn.Linear(w.size[-1], 3)
    w.between = lambda i: model.weight.requires_grad_(i % 2 == 0)

    def f(x):
        model.zero_grad()
        model(x).relu().sum().backward()
        return [None if p.grad is None else p.grad.clone() for p in model.parameters()]

    return f


@case
def optimizer_steps(w):
    model = network(w)
    optimizer = facula.optim.Adam(model.parameters(), lr=0.01)

    def f(x):
        optimizer.zero_grad()
        loss = (model(x) - 1).abs().mean()
        loss.backward()
        optimizer.step()
        return loss

    w.between = lambda i: w.log.append([p.detach().clone() for p in model.parameters()])
    return f


@case
def learning_rate_changes(w):
    weight = facula.ones(w.size)
    rate = 0.5

    def between(i):
        nonlocal rate
        rate *= 0.9

    def f(x):
        weight.sub_(rate * (weight - x))
        return weight.clone()

    w.between = between
    return f


@case
def submodule_exchanged(w):
    model = nn.Sequential(nn.ReLU(), nn.Sigmoid())

    def between(i):
        if i == 8:
            model[1] = nn.Tanh()

    w.between = between
    return model


@case
def module_copied_within(w):
    model = network(w)

    def f(x):
        other = copy.deepcopy(model)
        with facula.no_grad():
            other[0].weight.mul_(2)
        return model(x) + other(x)

    return f


# ---- gradients


@case
def gradients_kept(w):
    weight = nn.Parameter(facula.ones(w.size))

    def f(x):
        (weight * x).sin().sum().backward()
        return weight.grad.clone()

    return f


@case
def gradients_of_gradients(w):
    def f(x):
        x = x.clone().requires_grad_()
        (first,) = facula.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
        (second,) = facula.autograd.grad(first.pow(2).sum(), x)
        return first, second

    return f


@case
def backward_outside(w):
    weight = nn.Parameter(facula.full(w.size, 0.5))
    results = []

    def f(x):
        y = (weight * x).exp() / (1 + x * x)
        results.append(y)
        return y

    def between(i):
        if results:
            results.pop().sum().backward()
            w.log.append(weight.grad.clone())

    w.between = between
    return f


@case
def grad_mode_switched(w):
    weight = nn.Parameter(facula.ones(w.size))

    def f(x, on):
        with facula.set_grad_enabled(on):
            y = weight * x + 1
        w.log.append((y.requires_grad, facula.is_grad_enabled()))
        return y

    w.args = lambda i: (w.tensor(i), i % 3 == 0)
    return f


@case
def called_without_gradients(w):
    weight = nn.Parameter(facula.ones(w.size))
    inside = []

    def between(i):
        while inside:
            inside.pop().__exit__(None, None, None)
        if i % 2:
            inside.append(facula.no_grad())
            inside[-1].__enter__()

    w.between, w.finish = between, lambda: between(0)
    return lambda x: (weight * x).tanh()


@case
def function_with_its_own_derivative(w):
    class Scaled(facula.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            w.log.append("forward")
            ctx.save_for_backward(x)
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, g):
            w.log.append("backward")
            (x,) = ctx.saved_tensors
            return g * ctx.factor + x, None

    def f(x):
        x = x.clone().requires_grad_()
        Scaled.apply(x.exp(), len(w.log)).sum().backward()
        return x.grad

    return f


@case
def saved_tensors_packed(w):
    def pack(t):
        w.log.append(tuple(t.shape))
        return t + 0

    def f(x):
        x = x.clone().requires_grad_()
        with facula.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            y = x.exp() * x
        y.sum().backward()
        return x.grad

    return f


@case
def checkpointed(w):
    def inner(x):
        w.log.append("inner")
        return (x * 2).sin() + x

    def f(x):
        x = x.clone().requires_grad_()
        facula.utils.checkpoint.checkpoint(inner, x, use_reentrant=False).sum().backward()
        return x.grad

    return f


# ---- sizes, kinds, structures


@case
def sizes_change(w):
    w.args = lambda i: (w.tensor(i, w.size[0] + i % 7, w.size[1]),)
    return lambda x: (x * x.shape[0]).sigmoid().sum(0) + len(x)


@case
def kinds_change(w):
    kinds = (facula.float32, facula.float64, facula.bfloat16, facula.int64)
    w.args = lambda i: ((w.tensor(i) * 3).to(kinds[i % 4]),)
    return lambda x: x * 2 + x.abs()


@case
def layouts_change(w):
    def args(i):
        x = w.tensor(i)
        return ((x, x.t(), x[:, ::2], x[:1].expand(w.size))[i % 4],)

    w.args = args
    return lambda x: (x.exp() - 1) * 2


@case
def numbers_change(w):
    w.args = lambda i: (w.tensor(i), i * 0.25, i)
    return lambda x, a, n: (x * a + n) ** 2 - a


@case
def structures(w):
    Pair = namedtuple("Pair", ["left", "right"])

    def f(inputs, *rest, scale=1.0, **named):
        w.log.append((len(rest), sorted(named)))
        left = inputs["a"][0] * scale + sum(rest)
        return Pair(left, {"b": [left.exp(), named.get("extra")]})

    w.args = lambda i: ({"a": [w.tensor(i)]}, *range(i % 3))
    return functools.partial(f, scale=0.5, extra="x")


@case
def texts_as_arguments(w):
    def f(x, how):
        return {"sin": facula.sin, "cos": facula.cos}[how](x) + len(how)

    w.args = lambda i: (w.tensor(i), ("sin", "cos")[i % 2])
    return f
