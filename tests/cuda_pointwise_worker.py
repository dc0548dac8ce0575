"""Runs element-wise cases on CUDA and on the CPU, and compares bits. Arguments: topics. Prints cases that differ, and how many there are."""

from __future__ import annotations

import itertools
import sys

import facula as t

HALVES = (t.float16, t.bfloat16)
DTYPES = (t.float32, *HALVES, t.float64, t.complex64, t.int64, t.uint8)
#: of each size an element can have
MOVED = (t.uint8, t.bfloat16, t.float32, t.float64, t.complex128)
#: odd ones, ones that are not vectors, one that is less than a tile
SHAPES = ((64, 64), (65, 33), (33, 64), (128, 192), (127, 16), (16, 129), (1023, 20), (17, 1025), (15, 80), (200, 7))


def values(*shape, dtype=t.float32):
    """Values of all kinds that the dtype has."""
    count = 1
    for n in shape:
        count *= n
    if dtype in (t.uint8, t.bool):
        return (t.arange(count) * 7 % 251).to(dtype).reshape(shape)
    x = t.randn(count, dtype=t.float64) * 10
    if dtype not in (t.int64, t.int32):
        x[::97], x[1::89], x[2::83], x[3::79] = float("nan"), float("inf"), -0.0, float("-inf")
    if dtype.is_complex:
        x = t.complex(x, x.flip(0))
    return x.to(dtype).reshape(shape)


def same(expected, actual):
    """Equal bits, where NaN is NaN."""
    actual = actual.cpu()
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return False
    expected, actual = expected.contiguous(), actual.contiguous()
    if expected.is_complex():
        expected, actual = t.view_as_real(expected), t.view_as_real(actual)
    if expected.dtype == t.float8_e4m3fn:
        expected, actual = expected.float(), actual.float()
    if not expected.is_floating_point():
        return bool((expected == actual).all())
    equal = (expected == actual) & (t.signbit(expected) == t.signbit(actual)) | t.isnan(expected) & t.isnan(actual)
    return bool(equal.all())


def vectors():
    """Rows, columns, channels and numbers, beside what lies flat."""
    for dtype in DTYPES:
        for rows, n in ((40, 64), (33, 96), (40, 65), (7, 1024), (5, 1023)):
            a, row, column = values(rows, n, dtype=dtype), values(n, dtype=dtype), values(rows, 1, dtype=dtype)
            yield f"row {dtype} {rows} {n}", lambda a, r: a + r, a, row
            yield f"row on the left {dtype} {rows} {n}", lambda a, r: r - a, a, row
            yield f"column {dtype} {rows} {n}", lambda a, c: a + c, a, column
            yield f"two of one row or column {dtype} {rows} {n}", lambda c, r: c - r, column, row
        channels = values(3, 5, 12, 20, dtype=dtype)
        yield f"channels {dtype}", lambda x, c: c - x, channels, values(5, 1, 1, dtype=dtype)
        yield f"channels of odd planes {dtype}", lambda x, c: x[..., 1:] - c, channels, values(5, 1, 1, dtype=dtype)
        yield f"three {dtype}", lambda x, c, r: t.where(x == x, c, r), channels, values(5, 1, 1, dtype=dtype), values(20, dtype=dtype)
        yield f"number {dtype}", lambda x: x[:, 4:] - 3, values(40, 100, dtype=dtype)


def dtypes():
    """Inputs and results of different dtypes, of sizes with something left over."""
    for n in (1024, 1025, 1031, 4096, 5003):
        for a, b in itertools.product((t.float32, t.bfloat16, t.float64, t.int32, t.uint8), (t.float16, t.bool, t.complex64, t.float32)):
            x, y = values(n + 3, dtype=a), values(n + 3, dtype=b)
            yield f"{a} + {b} of {n}", lambda x, y, n=n: x[:n] + y[:n], x, y
            if n == 1031:
                yield f"{a} + {b} at odd places", lambda x, y, n=n: x[1 : n + 1] + y[3 : n + 3], x, y
        yield f"where of {n}", lambda c, x, y: t.where(c, x, y), values(n, dtype=t.uint8) > 99, values(n), values(n, dtype=t.float16)
        yield f"comparison of {n}", lambda x, y: x < y, values(n), values(n)
    casts = (t.float32, t.bfloat16, t.float16, t.float64, t.int32, t.bool, t.float8_e4m3fn)
    for a, b in itertools.permutations(casts, 2):
        x = t.arange(5003, dtype=t.float32).remainder(127).to(a)
        yield f"{a} to {b}", lambda x, b=b: x.to(b), x
        yield f"{a} to {b}, columns", lambda x, b=b: x[:5000].reshape(50, 100)[:, ::2].to(b), x


def strides():
    """Up to five dimensions, and more; vectors of neighbors in parts of rows, and none."""
    for dtype in (t.float32, t.bfloat16, t.complex128, t.uint8):
        x = values(4, 6, 8, 10, 16, dtype=dtype)
        y = values(16, 10, 8, 6, 4, dtype=dtype).permute(4, 3, 2, 1, 0)
        for d in range(5):
            yield f"steps in {d} {dtype}", lambda x, y, d=d: x.transpose(0, d)[::2] + y.transpose(0, d)[::2], x, y
        yield f"5 dimensions {dtype}", lambda x, y: x[1:, 1:, 1:, 1:, 1:] + y[1:, 1:, 1:, 1:, 1:], x, y
        yield f"parts of rows {dtype}", lambda x: x[1:, :5, 1:, :9] * 2, x
        yield f"6 dimensions {dtype}", lambda x, y: x[1:].unflatten(4, (4, 4))[..., 1:, :3] + y[1:].unflatten(4, (4, 4))[..., 1:, :3], x, y
        yield f"repeated {dtype}", lambda x: x[:, :1].expand(4, 6, 8, 10, 16) + x[..., :1], x
    x, y = values(70, 70), values(70, 70, dtype=t.bfloat16)
    yield "one turned, one of another dtype", lambda x, y: x.t() + y, x, y


def places():
    """Results that are there already, also where an input is."""
    def run(change):
        def call(*tensors):
            copies = [x.clone() for x in tensors]
            change(*copies)
            return copies[0]
        return call

    for dtype in (t.float32, t.bfloat16, t.uint8):
        x, row = values(48, 80, dtype=dtype), values(80, dtype=dtype)
        yield f"add_ row {dtype}", run(lambda x, r: x.add_(r)), x, row
        yield f"a part in place {dtype}", run(lambda x, r: x[3:, 1:].mul_(r[1:])), x, row
        yield f"columns in place {dtype}", run(lambda x, r: x[:, ::3].add_(x[:, ::3])), x, row
        yield f"columns into columns {dtype}", run(lambda x, r: x[:, ::2].copy_(x[:, 1::2])), x, row
        yield f"out= {dtype}", run(lambda x, r: t.add(x, r, out=x)), x, row
        yield f"fill of a part {dtype}", run(lambda x, r: x[:, 5:77].fill_(3)), x, row
        yield f"fill of all {dtype}", run(lambda x, r: x.fill_(3)), x, row
        yield f"into turned {dtype}", run(lambda x, y: x.t().copy_(y)), values(80, 48, dtype=dtype), x.t().clone().t()
    yield "into another dtype", run(lambda x, y: x[:, ::2].copy_(y)), values(48, 80, dtype=t.bfloat16), values(48, 40)


def transposes():
    for dtype in MOVED:
        for shape in SHAPES:
            yield f"{dtype} {shape}", lambda x: x.t().contiguous(), values(*shape, dtype=dtype)
            yield f"part of {dtype} {shape}", lambda x: x[1:, 1:].t().contiguous(), values(*shape, dtype=dtype)
        for order in itertools.permutations(range(4)):
            yield f"{dtype} {order}", lambda x, o=order: x.permute(o).contiguous(), values(2, 3, 40, 32, dtype=dtype)
        yield f"5 dimensions {dtype}", lambda x: x[:, 1:].permute(4, 2, 0, 3, 1).contiguous(), values(2, 4, 3, 33, 32, dtype=dtype)
        yield f"repeated {dtype}", lambda x: x.expand(3, 20, 24).permute(2, 0, 1).contiguous(), values(20, 24, dtype=dtype)
        yield f"channels last {dtype}", lambda x: x.contiguous(memory_format=t.channels_last), values(2, 20, 9, 8, dtype=dtype)


TOPICS = {f.__name__: f for f in (vectors, dtypes, strides, places, transposes)}


def main(topics):
    t.manual_seed(3)
    count = 0
    for name, f, *inputs in itertools.chain.from_iterable(TOPICS[topic]() for topic in topics):
        count += 1
        if not same(f(*inputs), f(*(x.cuda() for x in inputs))):
            print(f"wrong: {name}", flush=True)
    print(f"{count} cases")


if __name__ == "__main__":
    main(sys.argv[1:])
