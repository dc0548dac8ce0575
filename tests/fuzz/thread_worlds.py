"""What threads share, what they do with it, and what must be true afterwards. A reproducing program is preamble.py, this file and one more line.

Long because a program that reproduces a finding is made of one file: a class for each world, which are read alone.
"""

import contextlib
import faulthandler
import gc
import os
import random
import signal
import sys
import threading
import time
import weakref

from .preamble import *  # noqa: F403
from .preamble import F, copy, facula, nn, np, optim, pickle, tensors_in, warnings, x

DEADLINE = float(os.environ.get("FACULA_FUZZ_DEADLINE", "120"))  # seconds of a case: far more than any needs
LOCKED = getattr(sys, "_is_gil_enabled", lambda: True)()  # then an op of few elements is one step for other threads


class Announced(Exception):
    """An error that the schedule allows."""


@contextlib.contextmanager
def allowed(*texts):
    """Errors with one of the texts may come of this."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        if not any(text in str(error) for text in texts):
            raise


def run_together(works):
    """Calls each in a thread of its own, all begun at once; raises the first error. Threads that do not end end the process."""
    errors, begin = [], threading.Barrier(len(works))

    def run(work):
        try:
            begin.wait(DEADLINE)
            work()
        except BaseException as error:  # noqa: BLE001 - shown below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    end = time.monotonic() + DEADLINE
    with contextlib.suppress(KeyboardInterrupt):  # by which the runner asks whether it ends
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
    if any(thread.is_alive() for thread in threads):
        faulthandler.dump_traceback(all_threads=True)
        os.abort()
    for error in errors:
        if not isinstance(error, AssertionError):
            raise AssertionError(f"{type(error).__name__}: {error}") from error
        raise error


def race(world, chosen, times, seed):
    """Each thread does its actions in a world of its own making, `times` over; then the world is checked."""
    shared = WORLDS[world](seed, times * sum(map(len, chosen)))

    def work(number):
        def run():
            own = random.Random(seed * 100 + number)
            for _ in range(times):
                for action in chosen[number]:
                    getattr(shared, action)(own)

        return run

    run_together([work(i) for i in range(len(chosen))])
    shared.check(chosen, times)


def same(a, b):
    found, expected = list(tensors_in(a)), list(tensors_in(b))
    assert len(found) == len(expected), "another number of results"
    for one, other in zip(found, expected):
        assert one.shape == other.shape and one.dtype == other.dtype, f"{one.shape} {one.dtype}, alone {other.shape} {other.dtype}"
        one, other = (t.detach().to_dense() if t.layout is not facula.strided else t.detach() for t in (one, other))
        if one.device.type == "meta":
            continue
        one, other = (t.resolve_conj().resolve_neg() for t in (one, other))
        equal = (one == other) | ((one != one) & (other != other)) if one.numel() else facula.tensor(True)
        assert bool(equal.all()), f"other values than alone: {one.flatten()[:4].tolist()} for {other.flatten()[:4].tolist()}"


def same_in_all(text, tensors, threads, wide=False, graded=False):
    """The call gives in each thread what it gives alone, with gradients into leaves that all share."""
    t = [a.repeat(*([1] * (a.dim() - 1)), 40_000 // max(a.numel(), 1) + 1) if wide and a.dim() else a for a in tensors]
    graded = graded and any(a.is_floating_point() for a in t)
    leaves = [a.detach().requires_grad_() if graded and a.is_floating_point() else a for a in t]
    call = compile(text, "call", "eval")

    def once():
        result = eval(call, {**globals(), "t": leaves})
        outputs = [r for r in tensors_in(result) if r.requires_grad and r.is_floating_point()]
        sources = [a for a in leaves if a.requires_grad]
        if not outputs:
            return [result]
        return [result, facula.autograd.grad([r.sum() for r in outputs], sources, allow_unused=True)]

    try:
        alone = once()
    except Exception:  # a call that does not suit the dtype
        return
    before = [a.detach().clone() for a in leaves]

    def work():
        for _ in range(4):
            same(once(), alone)

    run_together([work] * threads)
    same([a.detach() for a in leaves], before)


class World:
    def __init__(self, seed, actions):
        pass

    @classmethod
    def actions(cls):
        """Those that a thread may choose; a name that stands here often is chosen often."""
        return [name for name, value in vars(cls).items() if not name.startswith("_") and name not in ("check", "actions") and callable(value)]

    def check(self, chosen, times):
        pass

    def _count(self, chosen, times, action):
        return times * sum(actions.count(action) for actions in chosen)


class Readers(World):
    """Tensors that nobody writes, looked at in every way."""

    def __init__(self, seed, actions):
        self.image = x(2, 5, 8, 9)
        self.net = nn.Conv2d(5, 16, 3, padding=1).eval()
        with facula.no_grad():
            plain = self.net(self.image)
            self.expected = plain.clone(memory_format=facula.contiguous_format)
            self.text = repr(self.expected[0, 0])
            self.tensor = self.net(self.image)  # of a private layout, perhaps
        self.array = self.expected.numpy().copy()

    def strides(self, rng):
        assert self.tensor.stride() == self.expected.stride() and self.tensor.is_contiguous()

    def values(self, rng):
        assert np.array_equal(self.tensor.numpy(), self.array)

    def printed(self, rng):
        assert repr(self.tensor[0, 0]) == self.text

    def views(self, rng):
        c = rng.randrange(16)
        assert facula.equal(self.tensor[:, c], self.expected[:, c]) and facula.equal(self.tensor.view(-1)[7:70], self.expected.view(-1)[7:70])
        assert facula.equal(self.tensor.permute(0, 2, 3, 1).contiguous(), self.expected.permute(0, 2, 3, 1))

    def copied(self, rng):
        assert facula.equal(copy.deepcopy(self.tensor), self.expected)

    def pickled(self, rng):
        assert facula.equal(pickle.loads(pickle.dumps(self.tensor)), self.expected)

    def element_wise(self, rng):
        assert facula.equal(self.tensor + self.expected, self.expected * 2) and facula.equal(self.tensor.relu(), self.expected.relu())

    def out(self, rng):
        target = facula.empty_like(self.expected)
        facula.add(self.tensor, 1, out=target)
        assert facula.equal(target, self.expected + 1)

    def reduced(self, rng):
        assert float(self.tensor.amax()) == float(self.array.max())

    def addressed(self, rng):
        assert self.tensor.data_ptr() and self.tensor.untyped_storage().nbytes() >= self.expected.nbytes

    def through_the_net(self, rng):
        with facula.no_grad():
            assert facula.equal(self.net(self.image), self.expected)

    def with_history(self, rng):
        result = self.net(self.image)
        result.stride(), result.sum().backward()

    def collected(self, rng):
        gc.collect(0)

    def check(self, chosen, times):
        assert np.array_equal(self.tensor.numpy(), self.array) and facula.equal(self.tensor, self.expected)


class PrivateLayouts(World):
    """Results of convolutions of one's own, which others look at while the values are replaced in place."""

    def __init__(self, seed, actions):
        conv = nn.Conv2d(4, 32, 3, padding=1).eval()
        with facula.no_grad():
            self.tensors = [conv(x(4, 4, 24, 24) + i) for i in range(4)]
            self.expected = [conv(x(4, 4, 24, 24) + i).clone(memory_format=facula.contiguous_format).clamp(0.0, 1.0) for i in range(4)]

    def clamped(self, rng):
        for t in self.tensors:
            t.clamp_(0.0, 1.0)

    def strides(self, rng):
        for t in self.tensors:
            assert t.stride() == (32 * 576, 576, 24, 1)

    def arrays(self, rng):
        for t in self.tensors:
            assert t.numpy().shape == (4, 32, 24, 24)

    def viewed(self, rng):
        for t in self.tensors:
            t.view(4, -1).sum(), t[:, 3].mean()

    def read(self, rng):
        for t in self.tensors:
            t.sum(), (t * 2).relu()

    def check(self, chosen, times):
        if self._count(chosen, times, "clamped"):
            for found, expected in zip(self.tensors, self.expected):
                assert facula.equal(found, expected), "writes in place were lost"


class Counters(World):
    """Exact sums: an op of few elements is one step under the interpreter's lock."""

    def __init__(self, seed, actions):
        self.whole = facula.zeros(7, dtype=facula.int64)
        self.real = facula.zeros(2, 3, dtype=facula.float64)
        self.column = self.real[:, 1]

    def add(self, rng):
        self.whole.add_(1)

    def add_by_out(self, rng):
        facula.add(self.whole, 1, out=self.whole)

    def add_to_view(self, rng):
        self.column += 1.0

    def add_at(self, rng):
        self.whole.index_add_(0, facula.tensor([3]), facula.tensor([5]))

    def read(self, rng):
        assert 0 <= int(self.whole[0]) and self.whole.tolist()[1] >= 0 and repr(self.real)

    def versions(self, rng):
        before = self.whole._version
        self.whole.add_(0)
        assert self.whole._version > before

    def check(self, chosen, times):
        if not LOCKED:
            return
        count = lambda action: self._count(chosen, times, action)  # noqa: E731
        ones = count("add") + count("add_by_out")
        assert self.whole.tolist() == [ones] * 3 + [ones + 5 * count("add_at")] + [ones] * 3, "a write was lost"
        assert self.real.sum() == 2 * count("add_to_view")


class Gradients(World):
    """Passes of several threads that end at the same leaves and go through the same graph."""

    def __init__(self, seed, actions):
        self.leaf = facula.ones(40, 3, dtype=facula.float64, requires_grad=True)
        self.big = facula.zeros(70_000, requires_grad=True)
        self.start = facula.zeros(())
        self.leaf.grad = facula.zeros(40, 3, dtype=facula.float64)
        self.shared = (self.leaf * 2.0).exp().log().relu().sum()  # each pass gives 2
        self.hooked = []

    def own_graph(self, rng):
        (self.leaf * 3.0).sum().backward()

    def shared_graph(self, rng):
        self.shared.backward(retain_graph=True)

    def two_graphs(self, rng):
        facula.autograd.backward([(self.leaf * 1.0).sum(), (self.leaf * 4.0).sum()])

    def big_leaf(self, rng):
        (self.big * 2.0).sum().backward()

    def asked_for(self, rng):
        (found,) = facula.autograd.grad(self.shared, self.leaf, retain_graph=True)
        assert bool(((found - 2.0).abs() < 1e-9).all())

    def hooks(self, rng):
        handle = self.leaf.register_hook(lambda g: self.hooked.append(g.shape[0]))
        later = self.leaf.register_post_accumulate_grad_hook(lambda t: self.hooked.append(t.shape[0]))
        (self.leaf * 1.0).sum().backward()
        handle.remove(), later.remove()

    def looked_at(self, rng):
        assert self.leaf.grad is not None, "a gradient was away"
        repr(self.leaf.grad), self.leaf.grad.stride(), self.leaf.grad_fn, self.shared.grad_fn.next_functions

    def higher(self, rng):
        a = facula.ones(3, dtype=facula.float64, requires_grad=True)
        (g,) = facula.autograd.grad((a**3).sum(), a, create_graph=True)
        g.sum().backward()
        assert a.grad.tolist() == [6.0] * 3

    def kept(self, rng):
        y = self.leaf * 1.0
        y.retain_grad()
        y.sum().backward()
        assert y.grad is not None

    def checkpointed(self, rng):
        facula.utils.checkpoint.checkpoint(lambda t: t * 3.0, self.leaf, use_reentrant=rng.random() < 0.5).sum().backward()

    def saved_hooks(self, rng):
        with facula.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            y = (self.leaf * self.leaf).sum()
        y.backward()

    def check(self, chosen, times):
        count = lambda action: self._count(chosen, times, action)  # noqa: E731
        expected = 3 * (count("own_graph") + count("checkpointed")) + 2 * (count("shared_graph") + count("saved_hooks"))
        expected += 5 * count("two_graphs") + count("hooks") + count("kept")
        found = self.leaf.grad
        assert bool(((found - expected).abs() < 1e-6 * max(expected, 1)).all()), f"gradients were lost: {found[0, 0].item()} of {expected}"
        big = 2.0 * count("big_leaf")
        assert self.big.grad is None and not big or bool((self.big.grad == big).all()), "large gradients were lost"


class FreedGraphs(World):
    """Several passes through graphs that the first one frees."""

    def __init__(self, seed, actions):
        self.leaf = facula.ones(5, requires_grad=True)
        self.graphs = []
        for _ in range(min(actions, 60)):
            y = self.leaf
            for _ in range(12):
                y = (y * y).sqrt()
            self.graphs.append(y.sum())

    def backward(self, rng):
        with allowed("an earlier pass", "after they have already been freed"):
            rng.choice(self.graphs).backward()

    def asked_for(self, rng):
        with allowed("an earlier pass", "after they have already been freed"):
            facula.autograd.grad(rng.choice(self.graphs), self.leaf)

    def saved(self, rng):
        with allowed("an earlier pass", "after they have already been freed"):
            assert rng.choice(self.graphs).grad_fn.next_functions[0][0]._saved_result is not None

    def looked_at(self, rng):
        node = rng.choice(self.graphs).grad_fn
        while node is not None:
            node.name(), repr(node)
            node = node.next_functions[0][0] if node.next_functions else None


class Crossing(World):
    """Functions whose backward starts a pass of its own, also through a node that another thread runs."""

    def __init__(self, seed, actions):
        world = self

        class Enters(facula.autograd.Function):
            @staticmethod
            def forward(ctx, t, other):
                ctx.other = other
                return t.clone()

            @staticmethod
            def backward(ctx, grad):
                if len(world.inside) < 2:
                    world.inside.append(1)
                    with facula.enable_grad():
                        world.roots[ctx.other].sum().backward(retain_graph=True)
                    world.inside.pop()
                return grad, None

        self.inside = []
        self.leaves = [facula.ones(3, requires_grad=True) for _ in range(2)]
        self.roots = [Enters.apply(leaf * 1.0, 1 - i) for i, leaf in enumerate(self.leaves)]

    def first(self, rng):
        self.roots[0].sum().backward(retain_graph=True)

    def second(self, rng):
        self.roots[1].sum().backward(retain_graph=True)

    def check(self, chosen, times):
        total = sum(float(leaf.grad.sum()) for leaf in self.leaves if leaf.grad is not None)
        assert total >= 3 * (self._count(chosen, times, "first") + self._count(chosen, times, "second")), "a pass was lost"


class Modules(World):
    """Modules that all threads call, train and copy."""

    def __init__(self, seed, actions):
        facula.manual_seed(seed)
        self.linear = nn.Linear(64, 96)
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 16, 10))
        self.recurrent = nn.LSTM(6, 5, 2, batch_first=True)
        self.attention = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
        self.rows, self.images, self.steps = x(33, 64), x(4, 3, 8, 8), x(2, 7, 6)
        self.tokens = x(2, 5, 16)

    def packed(self, rng):
        with facula.no_grad():
            for _ in range(4):  # the second call packs
                assert self.linear(self.rows).shape == (33, 96)

    def trained(self, rng):
        optimizer = rng.choice((optim.SGD, optim.Adam, optim.RMSprop))(self.linear.parameters(), lr=1e-3)
        self.linear(self.rows).square().mean().backward()
        optimizer.step()

    def written(self, rng):
        with facula.no_grad():
            self.linear.weight.mul_(1.0).add_(0.01)

    def written_by_out(self, rng):
        with facula.no_grad():
            facula.add(self.linear.weight, 0.01, out=self.linear.weight)

    def images_in(self, rng):
        with allowed("modified by an inplace operation"):
            self.net.train(rng.random() < 0.5)(self.images).sum().backward()

    def recurred(self, rng):
        output, _ = self.recurrent(self.steps)
        output.sum().backward()

    def attended(self, rng):
        self.attention.train(rng.random() < 0.5)
        self.attention(self.tokens).sum().backward()

    def copied(self, rng):
        copy.deepcopy(self.linear)(self.rows)

    def stated(self, rng):
        state = pickle.loads(pickle.dumps(self.net.state_dict()))
        assert list(state) == list(self.net.state_dict())

    def zeroed(self, rng):
        self.linear.zero_grad(set_to_none=rng.random() < 0.5)
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)

    def check(self, chosen, times):
        with facula.no_grad():
            weight, bias = self.linear.weight.clone(), self.linear.bias.clone()
            found, expected = self.linear(self.rows), self.rows @ weight.t() + bias
            assert facula.allclose(found, expected, atol=1e-3, rtol=1e-3), "packed weights are not those of now"


class Writers(World):
    """Large tensors that some write and others read without the lock: any of the values may be seen, and no others."""

    def __init__(self, seed, actions):
        self.tensor = facula.zeros(300, 300)
        self.quiet = x(300, 300)
        self.before = self.quiet.clone()

    def fill(self, rng):
        self.tensor.fill_(rng.choice((0.0, 1.0, 2.0)))

    def copy_in(self, rng):
        self.tensor.copy_(facula.ones(300, 300))

    def out(self, rng):
        facula.clamp(self.tensor, 0.0, 1.0, out=self.tensor)

    def rows(self, rng):
        self.tensor[rng.randrange(300)] = 2.0

    def read(self, rng):
        assert 0.0 <= float(self.tensor.max()) <= 2.0 and float(self.tensor.min()) >= 0.0

    def product(self, rng):
        result = self.tensor @ self.quiet
        assert result.shape == (300, 300) and bool(result.isfinite().all())

    def sorted(self, rng):
        values, places = self.tensor.flatten().sort()
        assert 0 <= int(places.min()) and int(places.max()) < 90_000

    def unique(self, rng):
        found, inverse = facula.unique(self.tensor, return_inverse=True)
        assert found.numel() <= 90_000 and int(inverse.max()) < max(found.numel(), 1) + 90_000

    def selected(self, rng):
        facula.nonzero(self.tensor), self.tensor[self.tensor > 1.0], facula.bincount(self.tensor.flatten().long().clamp(0, 2))

    def check(self, chosen, times):
        assert facula.equal(self.quiet, self.before)
        assert bool(((self.tensor == 0) | (self.tensor == 1) | (self.tensor == 2)).all())


class Random(World):
    """Generators that threads share, and processes that are forked meanwhile."""

    def __init__(self, seed, actions):
        self.generator = facula.Generator().manual_seed(seed)

    def uniform(self, rng):
        draws = facula.rand(rng.choice((3, 50_000)))
        assert 0.0 <= float(draws.min()) and float(draws.max()) < 1.0

    def own(self, rng):
        draws = facula.randn(rng.choice((5, 70_000)), generator=self.generator)
        assert bool(draws.isfinite().all())

    def permuted(self, rng):
        assert facula.randperm(1000).sort()[0].tolist() == list(range(1000))

    def chosen(self, rng):
        assert facula.multinomial(facula.ones(9), 4).unique().numel() == 4

    def dropped(self, rng):
        assert F.dropout(facula.ones(60_000), 0.5).unique().tolist() == [0.0, 2.0]

    def states(self, rng):
        state = self.generator.get_state()
        self.generator.set_state(state), facula.set_rng_state(facula.get_rng_state())

    def seeded(self, rng):
        facula.manual_seed(rng.randrange(100))

    def forked(self, rng):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pid = os.fork()
        if pid == 0:
            signal.alarm(30)
            facula.rand(70_000), facula.rand(3), facula.randn(5, generator=self.generator)
            leaf = facula.ones(3, requires_grad=True)
            (leaf * 2).sum().backward()
            os._exit(0 if leaf.grad.tolist() == [2.0] * 3 else 1)
        _, status = os.waitpid(pid, 0)
        assert status == 0, f"a forked process ended with status {status}"


class Objects(World):
    """Objects of tensors that die and come back, weak references, storages, views."""

    def __init__(self, seed, actions):
        self.base = facula.arange(12.0, requires_grad=True)
        self.shared = self.base * 2
        self.box = [facula.full((3,), float(i)) for i in range(40)]
        self.weak = weakref.WeakValueDictionary()

    def exchanged(self, rng):
        i = rng.randrange(40)
        old, self.box[i] = self.box[i], facula.full((3,), float(i))
        assert old.tolist() == [float(i)] * 3

    def weakly(self, rng):
        i = rng.randrange(40)
        self.weak[i] = self.box[i]
        found = self.weak.get(rng.randrange(40))
        assert found is None or found.shape == (3,)

    def viewed(self, rng):
        view = self.shared[rng.randrange(11) :]
        assert view._base is self.shared and view.grad_fn is not None

    def stored(self, rng):
        storage = self.box[rng.randrange(40)].untyped_storage()
        assert storage.nbytes() == 12 and storage.data_ptr()

    def interchanged(self, rng):
        array = self.box[3].numpy()
        assert facula.from_numpy(array)[0] == 3.0 and np.from_dlpack(self.box[4])[1] == 4.0

    def attributes(self, rng):
        self.shared.note = rng.random()
        assert 0.0 <= self.shared.note < 1.0

    def collected(self, rng):
        gc.collect(1)

    def subclassed(self, rng):
        found = self.box[5].as_subclass(nn.Parameter)
        assert found.shape == (3,) and repr(found)


class Watched(World):
    """Observers, profilers and modes that come and go while ops run."""

    def __init__(self, seed, actions):
        self.told = []
        self.only_one = threading.Lock()

    def work(self, rng):
        assert facula.equal(facula.ones(3) + 1, facula.full((3,), 2.0))
        leaf = facula.ones(2, requires_grad=True)
        (leaf * 2).sum().backward()

    def large_work(self, rng):
        assert float((facula.ones(70_000) * 2).sum()) == 140_000.0

    def watch(self, rng):
        self._watch(False, rng.random() < 0.5)

    def watch_and_go(self, rng):
        self._watch(True, rng.random() < 0.5)

    def _watch(self, goes, everywhere):
        told = self.told

        first = threading.Lock()

        class Watches:
            def op_begins(self, name, arguments):
                told.append(1)
                if goes and first.acquire(blocking=False):
                    facula._C._remove_observer(self)

        watches = Watches()
        facula._C._add_observer(watches, everywhere)
        facula.ones(2) + 1
        if not goes:
            facula._C._remove_observer(watches)

    def profiled(self, rng):
        if self.only_one.acquire(blocking=False):
            with self.only_one_held(), facula.profiler.profile(record_shapes=True, profile_memory=rng.random() < 0.5) as prof:
                (facula.ones(4) + 1).sum()
            assert prof.key_averages()

    @contextlib.contextmanager
    def only_one_held(self):
        try:
            yield
        finally:
            self.only_one.release()

    @classmethod
    def actions(cls):
        return ["work", "work", "large_work", "watch", "watch_and_go", "profiled"]

    def moded(self, rng):
        with facula.inference_mode(), facula.autocast("cpu", dtype=facula.bfloat16):
            assert (facula.ones(4, 4) @ facula.ones(4, 4)).dtype is facula.bfloat16


class Sparse(World):
    """Sparse and quantized tensors, spectra, transforms: what keeps plans and tables."""

    def __init__(self, seed, actions):
        dense = x(20, 30) * (x(20, 30) > 1.0)
        self.coo, self.csr, self.dense = dense.to_sparse(), dense.to_sparse_csr(), dense
        self.right = x(30, 4)
        self.product = dense @ self.right
        self.signal = x(3, 90)
        self.spectrum = facula.fft.rfft(self.signal)

    def products(self, rng):
        assert facula.allclose(self.coo @ self.right, self.product, atol=1e-4) and facula.allclose(self.csr @ self.right, self.product, atol=1e-4)

    def densified(self, rng):
        assert facula.equal(self.coo.to_dense(), self.dense) and facula.equal(self.csr.to_dense(), self.dense)

    def shown(self, rng):
        assert repr(self.coo) and self.coo.coalesce().indices().shape[0] == 2

    def spectra(self, rng):
        assert facula.equal(facula.fft.rfft(self.signal), self.spectrum)
        n = rng.randint(2, 200)
        assert facula.fft.irfft(facula.fft.rfft(x(n)), n).shape == (n,)

    def factored(self, rng):
        a = x(6, 6) + 8 * facula.eye(6)
        assert facula.allclose(facula.linalg.solve(a, a), facula.eye(6), atol=1e-3)

    def linear_algebra(self, rng):
        facula.linalg.svd(x(40, 20)), facula.linalg.eigh(facula.eye(30)), facula.linalg.inv(facula.eye(50) * 2)


WORLDS = {w.__name__: w for w in World.__subclasses__()}
