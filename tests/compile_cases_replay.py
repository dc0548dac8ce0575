"""Programs that change what a compiled function has met before, each of them in another way.

Long because each case stands alone.

A case is a generator that takes `compile` and gives results, call by call; both runs begin with the same random numbers. Those
in `TRUSTED` begin with calls that are made step by step.
"""

import copy
import functools
import sys
import threading

import facula as torch

nn, F = torch.nn, torch.nn.functional
CASES, TRUSTED = {}, set()


def case(trusted=True):
    def add(function):
        name = function.__name__
        CASES[name] = function
        if trusted:
            TRUSTED.add(name)
        return function

    return add


def small():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def some(*shape):
    return torch.randn(*(shape or (2, 4)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)
        self.drop, self.scale, self.deep = nn.Dropout(0.5), 2.0, False
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x, twice: bool = False):
        h = torch.relu(self.first(x - self.mean))
        if twice:
            h = h + h
        h = self.drop(h)
        return self.second(h) * self.scale


def calls(f, *args, times=3):
    for _ in range(times):
        try:
            yield f(*args)
        except Exception as error:
            yield type(error).__name__, str(error)


@case()
def forward_patched_on_the_instance(compile):
    net, x = small(), some()
    f = compile(lambda x: net(x))
    yield from calls(f, x)
    net[0].forward = lambda x: x.new_ones(2, 8)
    yield from calls(f, x)
    del net[0].forward
    yield from calls(f, x)


@case()
def forward_patched_on_the_class(compile):
    class Own(nn.Tanh):
        pass

    net, x = nn.Sequential(nn.Linear(4, 4), Own()), some()
    f = compile(lambda x: net(x))
    yield from calls(f, x)
    Own.forward = lambda self, x: x * 3
    yield from calls(f, x)


@case()
def call_patched_on_the_class(compile):
    class Own(nn.Tanh):
        pass

    net, x = nn.Sequential(nn.Linear(4, 4), Own()), some()
    f = compile(lambda x: net(x))
    yield from calls(f, x)
    Own.__call__ = lambda self, x: x * 3
    yield from calls(f, x)


@case()
def forward_of_the_package_patched(compile):
    net, x = small(), some()
    f = compile(lambda x: net(x))
    yield from calls(f, x)
    before = nn.Linear.forward
    nn.Linear.forward = lambda self, x: before(self, x) + 1
    try:
        yield from calls(f, x)
    finally:
        nn.Linear.forward = before
    yield from calls(f, x)


factor = 2.0
helper = torch.relu


def scaled(x):
    return helper(x) * factor


@case()
def globals_rebound(compile):
    global factor, helper
    x = some()
    f = compile(scaled)
    yield from calls(f, x)
    factor = 5.0
    yield from calls(f, x)
    factor = 5
    yield from calls(f, x)
    factor = some(2, 4)
    yield from calls(f, x)
    helper = torch.sigmoid
    yield from calls(f, x)
    helper = lambda x: x - 1  # noqa: E731
    yield from calls(f, x)
    factor, helper = 2.0, torch.relu
    yield from calls(f, x)


@case()
def cells_changing(compile):
    x, net, power, weight = some(), small(), 2.0, some(2, 3)

    def run(x):
        return net(x) * power + weight

    f = compile(run)
    yield from calls(f, x)
    power = 7.0
    yield from calls(f, x)
    weight = some(2, 3)
    yield from calls(f, x)
    net = small()
    yield from calls(f, x)
    weight = 1
    yield from calls(f, x)
    weight = None
    yield from calls(f, x)


@case()
def numbers_that_decide_and_are_handed_on(compile):
    x, power, drop = some(), 2.0, nn.Dropout(0.5)

    def run(x):
        h = x * power if power > 1 else x / power
        return drop(h) + power

    f = compile(run)
    yield from calls(f, x)
    for power in (3.0, 0.5, 2.0):  # noqa: B007
        yield from calls(f, x)
    drop.p = 2.0
    yield from calls(f, x)


@case()
def code_and_defaults_exchanged(compile):
    def run(x, by=2.0, *, more=1.0):
        return x * by + more

    def other(x, by=2.0, *, more=1.0):
        return x / by - more

    x, f = some(), compile(run)
    yield from calls(f, x)
    run.__defaults__ = (3.0,)
    yield from calls(f, x)
    run.__kwdefaults__["more"] = 4.0
    yield from calls(f, x)
    run.__kwdefaults__ = {"more": 5.0}
    yield from calls(f, x)
    run.__code__ = other.__code__
    yield from calls(f, x)


@case(trusted=False)
def a_default_that_is_written(compile):
    def run(x, seen=[]):  # noqa: B006
        seen.append(1)
        return x * len(seen)

    yield from calls(compile(run), some())


@case()
def a_default_list_of_sizes(compile):
    sizes = [4, 2]

    def run(x, to=sizes):
        return x.reshape(to)

    x, f = some(), compile(run)
    yield from calls(f, x)
    sizes[:] = [8]
    yield from calls(f, x)
    sizes.append(3)
    yield from calls(f, x)


@case()
def hooks_added_later(compile):
    net, x, seen = small(), some(), []
    f = compile(lambda x: net(x))
    yield from calls(f, x)
    handle = net[1].register_forward_hook(lambda module, args, result: result + 1)
    yield from calls(f, x)
    handle.remove()
    yield from calls(f, x)
    net[2].register_forward_pre_hook(lambda module, args: seen.append(1))
    yield from calls(f, x)
    yield len(seen)


@case()
def global_hooks(compile):
    net, x = small(), some()
    f = compile(lambda x: net(x))
    yield from calls(f, x)
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, result: result * 2)
    yield from calls(f, x)
    handle.remove()
    yield from calls(f, x)


@case()
def parameters_exchanged(compile):
    net, x = small(), some()
    f = compile(lambda x: net(x))
    yield from calls(f, x)
    net[0].weight = nn.Parameter(some(8, 4))
    yield from calls(f, x)
    net[0]._parameters["weight"] = nn.Parameter(some(8, 4))
    yield from calls(f, x)
    net[0].bias = None
    yield from calls(f, x)
    net[0].bias = nn.Parameter(some(8))
    yield from calls(f, x)
    net[0].weight.data = some(8, 4)
    yield from calls(f, x)
    with torch.no_grad():
        net[0].weight.mul_(2)
    yield from calls(f, x)
    del net[0].weight
    yield from calls(f, x)
    net[0].weight = some(8, 4)
    yield from calls(f, x)
    del net[0].weight
    net[0].register_buffer("weight", some(8, 4))
    yield from calls(f, x)


@case()
def modules_exchanged(compile):
    net, x = small(), some()
    f = compile(lambda x: net(x))
    yield from calls(f, x)
    net[1] = nn.ReLU()
    yield from calls(f, x)
    net.append(nn.Softmax(-1))
    yield from calls(f, x)
    del net[1]
    yield from calls(f, x)
    net._modules = {"only": nn.Linear(4, 2)}
    yield from calls(f, x)
    net.__dict__["_modules"] = {"a": nn.Tanh(), "b": nn.Linear(4, 2)}
    yield from calls(f, x)


@case()
def modules_in_another_order(compile):
    net, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), some()
    f = compile(lambda x: net(x))
    yield from calls(f, x)
    net._modules["0"] = net._modules.pop("0")
    yield from calls(f, x)


@case()
def dictionary_of_the_instance_exchanged(compile):
    net, other, x = Net().eval(), Net().eval(), some()
    f = compile(lambda x: net(x))
    yield from calls(f, x)
    net.__dict__ = other.__dict__
    yield from calls(f, x)


@case()
def class_of_the_instance_exchanged(compile):
    net, x = small(), some()
    f = compile(lambda x: net(x))
    yield from calls(f, x)
    net[1].__class__ = nn.Sigmoid
    yield from calls(f, x)


@case()
def train_and_eval(compile):
    net, x = Net(), some()
    f = compile(net)
    for mode in (True, False, True, False):
        net.train(mode)
        yield from calls(f, x)


@case()
def attributes_and_buffers(compile):
    net, x = Net().eval(), some()
    f = compile(net)
    yield from calls(f, x)
    net.scale = 3.0
    yield from calls(f, x)
    net.scale = some(3)
    yield from calls(f, x)
    net.mean = some(4)
    yield from calls(f, x)
    net.mean.add_(1)
    yield from calls(f, x)
    del net.scale
    yield from calls(f, x)
    Net.scale = 4.0
    try:
        yield from calls(f, x)
    finally:
        del Net.scale


@case()
def keyword_arguments(compile):
    net, x = Net().eval(), some()
    f = compile(net)
    yield from calls(f, x)
    for _ in range(3):
        yield f(x, twice=True)
        yield f(x=x, twice=False)
        yield f(x, True)
    yield from calls(f, x)
    yield from calls(f)
    yield from calls(f, x, 1, 2)
    yield f(x, thrice=True)


@case()
def gradients(compile):
    net, x = small(), some()
    f = compile(lambda x: net(x).square().sum())
    for frozen in (False, True, False):
        net[0].requires_grad_(not frozen)
        for _ in range(3):
            net.zero_grad()
            loss = f(x)
            loss.backward()
            yield loss, [p.grad if p.grad is None else p.grad.clone() for p in net.parameters()]
    with torch.no_grad():
        yield from calls(f, x)
    with torch.inference_mode():
        yield from calls(f, x)
    x.requires_grad_()
    yield torch.autograd.grad(f(x), x, create_graph=True)[0]


@case()
def parametrized(compile):
    net, x = small(), some()
    f = compile(lambda x: net(x))
    yield from calls(f, x)
    nn.utils.parametrizations.weight_norm(net[0])
    yield from calls(f, x)
    nn.utils.parametrize.remove_parametrizations(net[0], "weight")
    yield from calls(f, x)


@case()
def weight_norm(compile):
    net, x = small(), some()
    f = compile(lambda x: net(x))
    yield from calls(f, x)
    nn.utils.weight_norm(net[0])
    yield from calls(f, x)


@case()
def deep_copies(compile):
    net, x = Net().eval(), some()
    f = compile(net)
    yield from calls(f, x)
    other = copy.deepcopy(f)
    with torch.no_grad():
        other.first.weight.add_(1)
    yield from calls(other, x)
    yield from calls(f, x)


@case()
def functional_patched(compile):
    x = some()

    def run(x):
        return F.softmax(x, -1) + F.gelu(x)

    f, before = compile(run), (F.softmax, F.gelu)
    yield from calls(f, x)
    F.gelu = torch.relu
    try:
        yield from calls(f, x)
        F.softmax = lambda x, dim: x
        yield from calls(f, x)
    finally:
        F.softmax, F.gelu = before
    yield from calls(f, x)


class Loud(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            result = function(*args, **(kwargs or {}))
        return result + 1 if isinstance(result, torch.Tensor) and function is torch.relu else result


@case()
def subclasses(compile):
    x = some()

    def run(x, by):
        return torch.relu(x) * by

    f, other = compile(run), some().as_subclass(Loud)
    yield from calls(f, x, 2.0)
    yield from calls(f, other, 2.0)
    yield from calls(f, x, other)
    yield from calls(f, x, some())
    yield from calls(f, x, 2)
    yield from calls(f, x, None)
    yield from calls(f, None, x)


@case()
def a_subclass_that_changes_what_is_read(compile):
    power = 1.0

    class Growing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            nonlocal power
            power += 1
            return super().__torch_function__(function, types, args, kwargs or {})

    def run(x):
        h = torch.relu(x)
        return h * power

    f, x = compile(run), some()
    yield from calls(f, x)
    yield from calls(f, x.as_subclass(Growing))
    yield power


@case()
def a_subclass_in_a_cell(compile):
    x, weight = some(), some()
    f = compile(lambda x: torch.relu(x) + torch.relu(weight))
    yield from calls(f, x)
    weight = weight.as_subclass(Loud)
    yield from calls(f, x)


@case()
def methods_set_on_tensors(compile):
    x, weight = some(), some()
    f = compile(lambda x: x.tanh() + weight.tanh())
    yield from calls(f, x)
    x.tanh = lambda: torch.zeros(2, 4)
    yield from calls(f, x)
    del x.tanh
    weight.tanh = lambda: torch.zeros(2, 4)
    yield from calls(f, x)


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0

    def __getattr__(self, name):
        if name == "made_up":
            self.__dict__["count"] += 1
            return self.count
        return super().__getattr__(name)


@case()
def properties(compile):
    class Doubled(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        @property
        def doubled(self):
            return self.inner.weight * 2

    net, x = Doubled(), some()
    f = compile(lambda x: F.linear(x, net.doubled))
    yield from calls(f, x)
    Doubled.doubled = property(lambda self: self.inner.weight * 5)
    yield from calls(f, x)


@case(trusted=False)
def getattr_of_the_class(compile):
    net, x = Counted(), some()
    yield from calls(compile(lambda x: x * net.made_up), x)
    yield net.count


@case()
def function_modes_and_dispatch_modes(compile):
    from facula.utils._python_dispatch import TorchDispatchMode

    class Functions(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(getattr(function, "__name__", ""))
            return function(*args, **(kwargs or {}))

    class Ops(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    net, x, seen = small(), some(), []
    f = compile(lambda x: net(x))
    for mode in (Functions, Ops):
        yield from calls(f, x)
        with mode():
            yield from calls(f, x)
    yield seen


@case()
def autocast_and_vmap(compile):
    net, x = small(), some()
    f = compile(lambda x: net(x))
    yield from calls(f, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield from calls(f, x)
    yield torch.vmap(f)(some(3, 2, 4))
    yield torch.func.grad(lambda x: f(x).sum())(x)
    yield torch.func.jvp(f, (x,), (x,))
    yield from calls(f, x)


@case()
def saved_tensor_hooks(compile):
    seen = []

    def pack(x):
        seen.append(tuple(x.shape))
        return x

    net, x = small(), some()
    f = compile(lambda x: net(x))
    yield from calls(f, x)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        yield from calls(f, x)
    yield seen


@case()
def functional_call(compile):
    net, x = small(), some()
    f = compile(lambda x: net(x))
    yield from calls(f, x)
    others = {name: some(*p.shape) for name, p in net.named_parameters()}
    yield torch.func.functional_call(net, others, x)
    yield from calls(f, x)


@case()
def tracing_of_python(compile):
    net, x, seen = small(), some(), []

    def trace(frame, event, arg):
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name == "<lambda>":
            seen.append(event)

    f = compile(lambda x: net(x))
    yield from calls(f, x)
    sys.settrace(trace)
    try:
        made = [f(x) for _ in range(3)]
    finally:
        sys.settrace(None)
    yield made, seen
    sys.setprofile(trace)
    try:
        made = [f(x) for _ in range(3)]
    finally:
        sys.setprofile(None)
    yield made, seen


@case()
def threads(compile):
    net, x = small(), some()
    f = compile(lambda x: net(x))
    yield from calls(f, x)
    found = [[] for _ in range(4)]
    runs = [threading.Thread(target=lambda mine=mine: mine.extend(f(x) for _ in range(50))) for mine in found]
    for one in runs:
        one.start()
    for one in runs:
        one.join()
    yield found


@case()
def threads_while_parameters_are_exchanged(compile):
    net, x = nn.Linear(4, 4, bias=False), some()
    f = compile(lambda x: net(x) + net.weight.sum())
    yield from calls(f, x)
    weights, stop = [nn.Parameter(torch.full((4, 4), float(i))) for i in range(8)], threading.Event()
    right = [F.linear(x, w) + w.sum() for w in weights]
    net.weight = weights[0]

    def exchange():
        while not stop.is_set():
            for weight in weights:
                net._parameters["weight"] = weight

    other = threading.Thread(target=exchange)
    other.start()
    made = [f(x) for _ in range(300)]
    stop.set()
    other.join()
    whole = [any(torch.equal(one, it) for it in right) for one in made]
    yield all(whole) or compile.__name__ == "plain"  # Python may read two parameters in one call


@case()
def errors(compile):
    net, x = small(), some()

    def run(x):
        return net(x) + x.sum()

    f = compile(run)
    yield from calls(f, x)
    try:
        f(some(2, 5))
    except RuntimeError as error:
        names, trace = [], error.__traceback__
        while trace:
            names.append(trace.tb_frame.f_code.co_name)
            trace = trace.tb_next
        yield names[1:], str(error)
    yield from calls(f, x)


@case()
def errors_behind_effects(compile):
    x, kept = some(), torch.zeros(2, 4)

    def run(x, y):
        kept.add_(1)
        h = x.relu()
        return h @ y

    f = compile(run)
    for _ in range(3):
        yield f(x, some(4, 2)), kept.clone()
    for _ in range(3):
        try:
            f(x, x)
        except RuntimeError as error:
            trace = error.__traceback__
            while trace.tb_next:
                trace = trace.tb_next
            yield trace.tb_frame.f_code.co_name, trace.tb_lineno - run.__code__.co_firstlineno, str(error), kept.clone()
    yield f(x, some(4, 2)), kept


@case()
def warnings_name_the_line(compile):
    import warnings

    def run(x):
        h = x * 2
        return h.to(torch.float32)

    f, x = compile(run), torch.ones(2, dtype=torch.complex64)
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield from calls(f, some(2, 3))
        yield from calls(f, x)
    torch.set_warn_always(before)
    yield [(str(one.message), one.lineno) for one in caught]


@case()
def shapes_that_decide(compile):
    def run(x):
        if x.dim() == 2 and x.shape[0] > 2:
            x = x * 2
        if x.shape[-1] != 4:
            raise ValueError("four columns")
        return x.sum(0) if x.size(0) == 2 else x

    f = compile(run)
    for shape in ((2, 4), (3, 4), (2, 4), (4,), (2, 5), (2, 4), (1, 2, 4)):
        yield from calls(f, some(*shape))


@case()
def losses(compile):
    net, x, y = small(), some(), some(2, 3)
    f = compile(lambda x, y: F.mse_loss(net(x), y))
    yield from calls(f, x, y)
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield from calls(f, x, some(1, 3))
    yield [str(one.message) for one in caught]
    for loss in (nn.CrossEntropyLoss(), nn.HuberLoss(), nn.NLLLoss(reduction="sum")):
        f = compile(lambda x, y, loss=loss: loss(net(x), y))
        yield from calls(f, x, torch.tensor([1, 2]) if not isinstance(loss, nn.HuberLoss) else y)
        yield from calls(f, x, y)


@case()
def random_numbers_and_writes(compile):
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop, self.norm = nn.Dropout(0.3), nn.LayerNorm(4)

        def forward(self, x):
            h = self.drop(self.norm(x)) + torch.rand_like(x)
            x += 1
            return h

    net, x = Noisy(), some()
    f = compile(net)
    for _ in range(4):
        yield f(x), x.clone()


@case()
def blocks_without_gradients(compile):
    net, x = small(), some()

    def run(x):
        with torch.no_grad():
            h = net[0](x)
            with torch.enable_grad():
                h = net[1](h)
        return net[2](h)

    f, g = compile(run), compile(torch.no_grad()(run))
    yield from calls(f, x)
    yield from calls(g, x)
    for shape in ((2, 5), (2, 4)):
        try:
            yield f(some(*shape))
        except RuntimeError as error:
            yield str(error)
        yield torch.is_grad_enabled()


@case()
def tuples_lists_and_dicts(compile):
    net, x = small(), some()

    def run(x, both=True):
        a, b = x.chunk(2, dim=1)
        pair = (a, b) if both else (b, a)
        first, (second, third) = pair[0], (pair[1], net(x))
        joined = torch.cat([first, second], dim=1)
        most = joined.max(dim=1)
        return {"joined": joined, "values": most.values, "index": most[1], "more": [third, third], "pair": pair, "none": None}

    f = compile(run)
    yield from calls(f, x)
    yield from calls(f, x, False)
    results = f(x)
    results["more"].append(1)
    yield results, f(x)


@case()
def loops_and_lists_of_modules(compile):
    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
            self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)})

        def forward(self, x, head="a"):
            for i, layer in enumerate(self.layers):
                if i == 1:
                    continue
                x = x + layer(x) * (i + 1)
            return self.heads[head](x) + self.layers[0](x).sum()

    net, x = Stack(), some()
    f = compile(net)
    yield from calls(f, x)
    yield from calls(f, x, "b")
    net.layers.append(nn.Linear(4, 4))
    yield from calls(f, x)
    net.heads["a"] = nn.Linear(4, 5)
    yield from calls(f, x)


@case()
def recursion(compile):
    def run(x, depth):
        return x if depth == 0 else run(torch.tanh(x), depth - 1)

    f = compile(run)
    for depth in (1, 3, 3, 0, 60):
        yield from calls(f, some(), depth)


@case()
def methods_partials_and_nested(compile):
    net, x = Net().eval(), some()
    inner = compile(net)
    for f in (compile(net.forward), compile(functools.partial(net, twice=True)), compile(lambda x: inner(x) + 1)):
        yield from calls(f, x)
        net.scale = net.scale + 1
        yield from calls(f, x)


@case(trusted=False)
def effects_of_python(compile):
    seen, x = [], some()

    def run(x):
        seen.append(1)
        run.count = getattr(run, "count", 0) + 1
        return x * len(seen) + run.count

    yield from calls(compile(run), x)
    yield seen


@case(trusted=False)
def attributes_of_modules_that_are_set(compile):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = 0

        def forward(self, x):
            self.seen += 1
            return x * self.seen

    net = Own()
    yield from calls(compile(net), some())
    yield net.seen


@case(trusted=False)
def values_that_decide(compile):
    f = compile(lambda x: x * 2 if x.sum() > 0 else x - 1)
    for i in range(6):
        yield f(torch.full((2,), float(i % 2 * 2 - 1)))


@case()
def builtins_shadowed(compile):
    space = {"torch": torch}
    source = "def run(x):\n    return x * len((1, 2))\n"
    import linecache

    linecache.cache["<shadowed>"] = (len(source), None, source.splitlines(True), "<shadowed>")
    exec(compile_text(source, "<shadowed>"), space)
    f, x = compile(space["run"]), some()
    yield from calls(f, x)
    space["len"] = lambda values: 7
    yield from calls(f, x)


def compile_text(source, name):
    import builtins

    return builtins.compile(source, name, "exec")


@case()
def source_that_is_not_the_code(compile):
    import linecache

    space, said, done = {"torch": torch}, "def run(x):\n    return x * 2\n", "def run(x):\n    return x * 3\n"
    linecache.cache["<lying>"] = (len(said), None, said.splitlines(True), "<lying>")
    exec(compile_text(done, "<lying>"), space)
    yield from calls(compile(space["run"]), some())
    linecache.cache["<honest>"] = (len(said), None, said.splitlines(True), "<honest>")
    exec(compile_text(said, "<honest>"), space)
    yield from calls(compile(space["run"]), some())


@case()
def objects_of_settings(compile):
    class Config:
        def __init__(self):
            self.scale, self.deep, self.name = 2.0, True, "a"

    config, x = Config(), some()

    def run(x):
        if config.deep and config.name == "a":
            x = x.tanh()
        return x * config.scale

    f = compile(run)
    yield from calls(f, x)
    config.scale = 3.0
    yield from calls(f, x)
    config.deep = False
    yield from calls(f, x)
    config.name = "b"
    yield from calls(f, x)
    del config.scale
    yield from calls(f, x)
