"""Random numbers of CUDA devices, written once more in NumPy: Philox 4x32-10, numbers made from its words, and the distributions that need a
number of words of their own for every element. The order in which words are used is that of PyTorch's kernels."""

from __future__ import annotations

import math

import numpy as np

F32 = np.float32
LOW = np.uint64(0xFFFFFFFF)


def philox(place, subsequence, seed):
    """Words of 32 bits, of shape [*place.shape, 4]: the seed is the key, the subsequence the upper half of the counter."""
    place, subsequence = np.broadcast_arrays(np.asarray(place, np.uint64), np.asarray(subsequence, np.uint64))
    x, y = place & LOW, place >> np.uint64(32)
    z, w = subsequence & LOW, subsequence >> np.uint64(32)
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * x, np.uint64(0xCD9E8D57) * z
        x, y, z, w = (b >> np.uint64(32)) ^ y ^ np.uint64(key[0]), b & LOW, (a >> np.uint64(32)) ^ w ^ np.uint64(key[1]), a & LOW
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack([x, y, z, w], -1)


def pick(words, k):
    """words[i, k[i]]."""
    return np.take_along_axis(words, np.broadcast_to(k, words.shape[:1])[:, None].astype(int), 1)[:, 0]


def single(word):
    """In (0, 1]; the sum is rounded once."""
    return (np.asarray(word).astype("float32").astype("float64") * 2.0**-32 + 2.0**-33).astype("float32")


def double(low, high):
    return ((low ^ (high << np.uint64(21))).astype(np.longdouble) * 2.0**-53 + 2.0**-54).astype("float64")


def rounded(values, dtype):
    """To float16 or bfloat16 and back, as devices round."""
    if dtype == "float16":
        return np.asarray(values, "float16").astype("float32")
    if dtype != "bfloat16":
        return np.asarray(values, dtype)
    bits = np.ascontiguousarray(values, "float32").view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16) << np.uint64(16)).astype(np.uint32).view("float32")


class Fill:
    """How fills draw: a thread makes `wide` elements from one call of Philox, as many elements apart as there are threads."""

    def __init__(self, size, seed, offset, threads, wide):
        self.threads = min(threads, -(-size // 256) * 256)
        self.size, self.wide, self.offset = size, wide, offset
        i = np.arange(size, dtype=np.uint64)
        number = i // np.uint64(self.threads)
        self.call = philox(number // np.uint64(wide) + np.uint64(offset // 4), i % np.uint64(self.threads), seed)
        self.k = (number % np.uint64(wide)).astype(int)

    def end(self):
        """The offset afterwards."""
        return self.offset + ((self.size - 1) // (self.threads * self.wide) + 1) * 4

    def word(self, j=0):
        """The word of every element, or the j-th of two."""
        return pick(self.call, self.k if self.wide == 4 else 2 * self.k + j)

    def units(self):
        return single(self.word()) if self.wide == 4 else double(self.word(0), self.word(1))

    def normals(self):
        """In double precision; of pairs the first has the sine."""
        if self.wide == 2:
            first, second = (double(self.call[:, j], self.call[:, j + 1]) for j in (0, 2))
            angle = 2 * np.pi * second
        else:
            first, second = (pick(self.call, self.k // 2 * 2 + j).astype("float64") for j in (0, 1))
            first, angle = first * 2.0**-32 + 2.0**-33, 2 * np.pi * (second * 2.0**-32 + 2.0**-33)
        return np.sqrt(-2 * np.log(first)) * np.where(self.k % 2 == 0, np.sin(angle), np.cos(angle))

    def whole(self):
        """Words of 64 bits, the first one high."""
        return self.word(0) << np.uint64(32) | self.word(1)


class Source:
    """Words of a subsequence one after the other."""

    CALLS = 64

    def __init__(self, seed, offset, subsequence):
        self.words = iter(philox(np.arange(self.CALLS) + offset // 4, subsequence, seed).ravel())
        self.second = None

    def word(self):
        return next(self.words)

    def unit(self):
        return single(self.word())[()]

    def normal(self):
        if self.second is not None:
            value, self.second = self.second, None
            return value
        radius = np.sqrt(F32(-2) * np.log(self.unit()))
        angle = F32(float(self.word()) * (2 * math.pi * 2.0**-32) + math.pi * 2.0**-32)
        self.second = np.cos(angle) * radius
        return np.sin(angle) * radius


def poisson(rate, source):
    """For rates below 64, and above 4000."""
    if rate > 4000:
        words = [source.word() for _ in range(4)]
        normal = math.sqrt(-2 * math.log(double(words[0], words[1]))) * math.sin(2 * math.pi * double(words[2], words[3]))
        return math.floor(math.sqrt(rate) * normal + rate + 0.5)
    product, k = np.exp(F32(rate)), 0
    while True:
        product = F32(product * source.unit())
        if not product > 1:
            return k
        k += 1


def gamma(shape, source, float_type):
    shape = float_type(shape)
    scale = float_type(1)
    if shape < 1:
        scale = (1 - float_type(source.unit())) ** (1 / shape)
        shape = shape + float_type(1)
    d = shape - float_type(F32(1) / F32(3))
    c = 1 / np.sqrt(9 * d)
    while True:
        x = float_type(source.normal())
        y = 1 + c * x
        if y <= 0:
            continue
        cube, u, square = y * y * y, 1 - float_type(source.unit()), x * x
        if u < 1 - float_type(F32(0.0331)) * square * square or np.log(u) < float_type(0.5) * square + d * (1 - cube + np.log(cube)):
            return scale * d * cube


def stirling_tail(k):
    k = float(k)
    if k <= 9:
        return math.lgamma(k + 1) - ((k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi))
    square = (k + 1) ** 2
    return (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)


def binomial(count, p, source, float_type):
    def unit():
        return float_type(float(int(source.word()) & 0xFFFFFF) * 2.0**-24)

    count, p = float_type(count), float_type(p)
    if p > 0.5:
        return count - binomial(count, float_type(1.0 - float(p)), source, float_type)
    if count * p < 10:
        log_failure, reached, successes = np.log1p(-p), float_type(0), 0
        while True:
            reached += np.ceil(np.log(unit()) / log_failure)
            if reached > count:
                return successes
            successes += 1
    spread = np.sqrt(count * p * (1 - p))
    b = float_type(1.15 + 2.53 * float(spread))
    a = float_type(-0.0873 + 0.0248 * float(b) + 0.01 * float(p))
    c, quick, odds = float_type(float(count * p) + 0.5), float_type(0.92 - 4.2 / float(b)), p / (1 - p)
    alpha, mode = float_type((2.83 + 5.1 / float(b)) * float(spread)), np.floor((count + 1) * p)
    while True:
        u, v = float_type(float(unit()) - 0.5), unit()
        near = float_type(0.5 - abs(float(u)))
        k = np.floor((2 * a / near + b) * u + c)
        if k < 0 or k > count:
            continue
        if near >= 0.07 and v <= quick:
            return k
        bound = (float(mode) + 0.5) * math.log((mode + 1) / (odds * (count - mode + 1)))
        bound += float(count + 1) * math.log((count - mode + 1) / (count - k + 1)) + (float(k) + 0.5) * math.log(odds * (count - k + 1) / (k + 1))
        bound += stirling_tail(mode) + stirling_tail(count - mode) - stirling_tail(k) - stirling_tail(count - k)
        if math.log(v * alpha / (a / (near * near) + b)) <= bound:
            return k


def permutation(n, seed, offset, threads):
    """The permutation, the offset afterwards, and how many keys were drawn twice."""
    bits = min(64, math.ceil(math.log2(n - (6.0 * n * n + 1) / (12 * math.log(0.9)))))
    fill = Fill(n, seed, offset, threads, 2)
    width = 32 if bits <= 32 else 64
    drawn = [int(word) % (2**width - 1) - 2 ** (width - 1) for word in fill.whole()]
    keys = drawn if bits == width else [key & (2**bits - 1) for key in drawn]
    order = sorted(range(n), key=keys.__getitem__)
    ordered = [keys[i] for i in order]
    begin, ties = 0, 0
    while begin < n:
        end = begin + 1
        while end < n and ordered[end] == ordered[begin]:
            end += 1
        source = Source(seed, fill.end(), begin) if end > begin + 1 else None
        for i in range(end - begin - 1, 0, -1):
            other = int(source.word()) % (i + 1)
            order[begin + i], order[begin + other] = order[begin + other], order[begin + i]
            ties += 1
        begin = end
    return order, fill.end() + -(-n // 4) * 4, ties
