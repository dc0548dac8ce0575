"""Programs of compiled functions on a CUDA device, which print where they differ from eager calls: `python cuda_groups_worker.py random FIRST COUNT`
runs random ones (compile_programs.py), `... cases [NAME ...]` those below."""

from __future__ import annotations

import sys

import compile_programs

import facula as torch
import facula.nn.functional as F


class ALWAYS:
    """Settings: every call after the first is followed."""

    always = True


def compiled(function):
    """A compiled function of which every call but the first is followed."""
    return torch._C._CompiledFunction(function, ALWAYS)


def big(*sizes, dtype=torch.float32, seed=0):
    """Random numbers on the device."""
    return torch.randn(sizes or (96, 128), generator=torch.Generator().manual_seed(seed)).to(dtype).cuda()


class OnDevice(compile_programs.Program):
    """A random program whose tensors lie on the device."""

    def make_inputs(self):
        """Its inputs, there; a number in a while a tensor of the CPU without dimensions."""
        made = []
        for at, t in enumerate(super().make_inputs()):
            stays = t.ndim == 0 and (self.seed + at) % 2
            made.append(t if stays else t.detach().cuda().requires_grad_(t.requires_grad))
        return made


def random(first, count):
    """Run programs by their seeds."""
    compile_programs.Program = OnDevice
    for seed in range(int(first), int(first) + int(count)):
        try:
            lines = compile_programs.differences(seed, calls=3)
        except RuntimeError as error:  # of a kernel, which eager calls have as well, at any later wait
            lines = [] if "found by a CUDA kernel" in str(error) else [f"seed {seed}: {error}"]
        for line in lines:
            print(line, flush=True)


CASES = {}


def case(function):
    """A function that gives (what is compiled, its arguments)."""
    CASES[function.__name__] = function
    return function


def chain(x, y):
    """Return what multiplies and then adds: were parts of steps joined, they would round once."""
    t = x * y
    u = t + x
    v = u * u - t
    return v * 0.5 + u, torch.addcmul(v, x, y, value=0.3) - t


@case
def chains():
    """Return all dtypes of which there is arithmetic."""
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.complex128):
        yield chain, (big(dtype=dtype), big(dtype=dtype, seed=1))
        yield chain, (big(95, 127, dtype=dtype), big(95, 127, dtype=dtype, seed=1))  # vectors do not fit


@case
def whole_numbers():
    """Integers, bytes and truth values, mixed with others."""

    def mixed(x, y, mask):
        a = (x + y) * 3
        b = torch.where(mask, a, x) + (a > x)
        return a, b, a.abs() // 2, mask & (b < a), b * 0.5, b + x.float()

    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64):
        numbers = (big() * 20).to(dtype), (big(seed=1) * 20).to(dtype)
        yield mixed, (*numbers, big(seed=2) > 0)


@case
def layouts():
    """Inputs that are read in other ways than element after element."""

    def mixed(x, row, column, number, strided, turned):
        y = x * row + column
        z = torch.where(strided > 0, y * number, turned)
        return y.tanh() * z, z - y

    for rows, columns in ((96, 128), (97, 128), (96, 127), (64, 256), (3, 4096)):
        strided = big(rows, 2 * columns, seed=4)[:, ::2]
        turned = big(columns, rows, seed=5).t()
        yield mixed, (big(rows, columns), big(columns), big(rows, 1), big(1)[0], strided, turned)
        yield mixed, (big(rows, columns)[:, :], big(columns + 1)[1:], big(rows, 3)[:, 1:2], torch.tensor(1.5), strided, turned)
        yield mixed, (turned.t().t(), big(columns), big(rows, 1), big(1)[0], big(rows, columns).bfloat16(), strided)
    yield (lambda x, y: ((x + y) * x, x - y)), (big(4, 6, 6, 7, 16)[:, 1:, :, 2:], big(4, 1, 6, 1, 16))
    yield (lambda x, y: ((x + y) * x, x - y)), (big(13000)[1:], big(13000, seed=1)[:-1])


@case
def functions():
    """Losses and activations, written out and as ops."""

    def focal(x, target):
        p = torch.sigmoid(x)
        ce = F.binary_cross_entropy_with_logits(x, target, reduction="none")
        pt = p * target + (1 - p) * (1 - target)
        return ce * (1 - pt) ** 2 * (0.25 * target + 0.75 * (1 - target))

    def gelus(x):
        return (
            0.5 * x * (1 + torch.erf(x * 0.7071067811865476)),
            F.gelu(x) * F.silu(x) + F.softplus(x),
            x.exp() - x.log1p() * x.sin(),
        )

    def adam(p, g, m, v):
        m = m * 0.9 + g * 0.1
        v = v * 0.999 + g * g * 0.001
        return p - 0.01 * m / (v.sqrt() + 1e-8), m, v

    yield focal, (big(), (big(seed=1) > 0).float())
    yield gelus, (big(),)
    yield adam, (big(), big(seed=1), big(seed=2), big(seed=3).abs())
    yield adam, (big(dtype=torch.float64), big(seed=1), big(seed=2), big(seed=3).abs())


def statistics(x, w):
    """Folds of rows, and what is done with them."""
    y = x * w
    mean = y.mean(-1, keepdim=True)
    var = (y - mean).pow(2).sum(-1, keepdim=True)
    low, at = y.min(-1)
    return (y - mean) * torch.rsqrt(var + 1e-5), y.amax(-1), low, at, y.sum(-1) * 2 + low, var


def norms(x, w, b):
    """Norms of rows with and without weights, between other steps."""
    y = x * 2 + w
    z = F.layer_norm(y, y.shape[-1:], w, b)
    return (
        z * y,
        F.layer_norm(z - 1, y.shape[-1:], w).tanh(),
        F.rms_norm(y.sin(), y.shape[-1:], w, 1e-5) + y,
        F.layer_norm(y, y.shape[-1:]),
    )


def softmax_by_hand(x):
    """With the largest element and its place."""
    e = (x * 0.125 - x.max(-1, keepdim=True).values).exp()
    return e / e.sum(-1, keepdim=True)


def softmaxes(x, y):
    """As ops."""
    z = x * 2 + y
    return z.softmax(-1) * y, (z - 1).log_softmax(-1), z.amin(-1, keepdim=True) - y


@case
def rows():
    """Rows of lengths that groups of 1, 32 and 256 threads take; some are left to the ops alone."""
    for length in (3, 8, 64, 512, 1000, 2048):
        x, w = big(20000 // length + 3, length), big(length, seed=1)
        for dtype in (torch.float32, torch.float64) if length in (3, 64, 2048) else (torch.float32,):
            yield statistics, (x.to(dtype), w.to(dtype))
            yield softmax_by_hand, (x.to(dtype),)
            yield norms, (x.to(dtype), w.to(dtype), w.to(dtype).cos())
            yield softmaxes, (x.to(dtype), x.to(dtype).sin())
    x = big(40, 8, 2, 64)
    yield softmaxes, (x, big(8, 1, 64, seed=1))  # rows lie apart in the second
    yield statistics, (x, big(40, 1, 2, 64, seed=1))
    yield (lambda x, y: (x + y).sum(-1) + y[..., 0] * 2), (x, big(40, 8, 2, 1, seed=1))


@case
def joined():
    """Return the same, and what the parts of a step could be joined with, for compilers that join them."""

    def twice(x, y, z):
        t = x * y  # is computed in addcmul, too
        u = torch.addcmul(z, x, y)
        e = x.tanh() * y
        return t + u, u - t, e + z, (x.exp() + z) * y - z, (t * z).sum(-1), (x * y + z).softmax(-1)

    for dtype in (torch.float32, torch.float64):
        yield chain, (big(dtype=dtype), big(dtype=dtype, seed=1))
        yield norms, (big(dtype=dtype), big(128, dtype=dtype, seed=1), big(128, dtype=dtype, seed=2))
        yield twice, (big(dtype=dtype), big(dtype=dtype, seed=1), big(dtype=dtype, seed=2))


def many(x, y):
    """More steps than a group has, and more inputs."""
    for i in range(60):
        x = x * 0.99 + y[i % len(y)]
    return x


@case
def large_groups():
    """Groups are cut where they would be too large."""
    yield many, (big(), [big(seed=i) for i in range(25)])


def same(a, b):
    """Return whether results are the same bit by bit."""
    pairs = zip(a, b) if isinstance(a, tuple) else [(a, b)]
    return all(compile_programs.same(x, y) for x, y in pairs)


def cases(*names):
    """Run cases, or all; each has to be one kernel at least."""
    for name in names or CASES:
        for number, (function, arguments) in enumerate(CASES[name]()):
            wanted, f, before = function(*arguments), compiled(function), torch._C._cuda_groups()
            f.reset()
            for call in range(3):
                if not same(f(*arguments), wanted):
                    print(f"{name} {number}: call {call} differs from the eager one")
            after = torch._C._cuda_groups()
            if f.recordings[0].put_off == 0:
                print(f"{name} {number}: nothing was put off")
            if after["launches"] == before["launches"] or after["in_steps"] != before["in_steps"]:
                print(f"{name} {number}: {after} after {before}")


if __name__ == "__main__":
    {"random": random, "cases": cases}[sys.argv[1]](*sys.argv[2:])
