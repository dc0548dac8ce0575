"""Translate products."""

from ._table import op
from .create import two_of
from .elementwise import arithmetic, scaled
from .reduce import linalg_vector_norm, summed


@op("matmul mm bmm linalg_matmul")
def matmul(g, self, other):
    return g.MatMul(self, other)


@op("mv dot vdot")
def mv(g, self, other):
    return g.MatMul(self, other)


@op("inner")
def inner(g, self, other):
    if not self.rank or not other.rank:
        return self * other
    return g.MatMul(self, other) if other.rank == 1 else _rows(g, self, other)


def _rows(g, self, other):
    flat = g.reshape(other, [-1, other.shape[-1]])
    product = g.MatMul(self, g.transpose(flat, 0, 1))
    return g.reshape(product, [*g.shape_of(self)[:-1], *g.shape_of(other)[:-1]])


@op("outer ger")
def outer(g, self, vec2):
    return arithmetic(g, "Mul", g.unsqueeze(self, 1), g.unsqueeze(vec2, 0))


def _sum(g, self, product, beta, alpha):
    product = scaled(g, product, alpha)
    # With beta 0 the input is not read: NaN in it does not reach the result.
    if isinstance(beta, (int, float)) and beta == 0:
        return product
    return scaled(g, self, beta) + product


@op("addmm")
def addmm(g, self, mat1, mat2, beta=1, alpha=1):
    if self.is_floating() and self.rank <= 2 and isinstance(beta, (int, float)) and isinstance(alpha, (int, float)):
        return g.Gemm(mat1, mat2, self, alpha=float(alpha), beta=float(beta))
    return _sum(g, self, g.MatMul(mat1, mat2), beta, alpha)


@op("baddbmm addmv")
def baddbmm(g, self, batch1, batch2, beta=1, alpha=1):
    return _sum(g, self, g.MatMul(batch1, batch2), beta, alpha)


@op("addbmm")
def addbmm(g, self, batch1, batch2, beta=1, alpha=1):
    return _sum(g, self, summed(g, g.MatMul(batch1, batch2), 0), beta, alpha)


@op("addr")
def addr(g, self, vec1, vec2, beta=1, alpha=1):
    return _sum(g, self, outer(g, vec1, vec2), beta, alpha)


@op("linear")
def linear(g, input, weight, bias=None):
    if weight.rank == 1:
        result = g.MatMul(input, weight)
    elif input.rank == 2 and bias is not None and input.is_floating():
        return g.Gemm(input, weight, bias, transB=1)
    else:
        result = g.MatMul(input, g.transpose(weight, 0, 1))
    return result if bias is None else result + bias


@op("bilinear")
def bilinear(g, input1, input2, weight, bias=None):
    lead = g.shape_of(input1)[:-1]
    a, b = (g.reshape(v, [-1, v.shape[-1]]) for v in (input1, input2))
    result = g.Einsum(a, weight, b, equation="bi,oij,bj->bo")
    result = result if bias is None else result + bias
    return g.reshape(result, [*lead, g.size(weight, 0)])


@op("einsum")
def einsum(g, equation, tensors, path=None):
    return g.Einsum(*tensors, equation=_spelled(equation.replace(" ", ""), tensors))


def _spelled(equation, tensors):
    """Return the equation with letters for the dimensions that it has as `...`, and with its result."""
    inputs, _, result = equation.partition("->")
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if c not in equation]
    parts = inputs.split(",")
    counts = [t.rank - len(part.replace("...", "")) for part, t in zip(parts, tensors)]
    letters = "".join(free[: max([0] + [n for n, part in zip(counts, parts) if "..." in part])])
    parts = [part.replace("...", letters[len(letters) - n :] if n else "") for part, n in zip(parts, counts)]
    if "->" not in equation:
        plain = inputs.replace("...", "").replace(",", "")
        result = letters + "".join(sorted(c for c in set(plain) if plain.count(c) == 1))
    return ",".join(parts) + "->" + result.replace("...", letters)


@op("tensordot")
def tensordot(g, self, other, dims_self, dims_other):
    a, b = ([d % v.rank for d in dims] for v, dims in ((self, dims_self), (other, dims_other)))
    names = iter("abcdefghijklmnopqrstuvwxyz")
    left = [next(names) for _ in range(self.rank)]
    right = [left[a[b.index(d)]] if d in b else next(names) for d in range(other.rank)]
    rest = [n for d, n in enumerate(left) if d not in a] + [n for d, n in enumerate(right) if d not in b]
    return g.Einsum(self, other, equation=f"{''.join(left)},{''.join(right)}->{''.join(rest)}")


@op("kron")
def kron(g, self, other):
    rank = max(self.rank, other.rank)
    a, b = (g.unsqueeze(v, *range(rank - v.rank)) if v.rank < rank else v for v in (self, other))
    lifted = g.unsqueeze(a, *range(1, 2 * rank, 2)) * g.unsqueeze(b, *range(0, 2 * rank, 2))
    return g.reshape(lifted, [_times(g, x, y) for x, y in zip(g.shape_of(a), g.shape_of(b))])


def _times(g, a, b):
    return a * b if isinstance(a, int) and isinstance(b, int) else g.sizes([a]) * g.sizes([b])


@op("linalg_multi_dot chain_matmul")
def linalg_multi_dot(g, tensors):
    result = tensors[0]
    for t in tensors[1:]:
        result = g.MatMul(result, t)
    return result


@op("linalg_vecdot")
def linalg_vecdot(g, x, y, dim=-1):
    return summed(g, x * y, dim)


@op("cross linalg_cross")
def cross(g, self, other, dim=None):
    if dim is None:
        dim = next((d for d, s in enumerate(self.shape) if s == 3), -1)
    turned = lambda v, order: g.take(v, order, dim)
    first = turned(self, [1, 2, 0]) * turned(other, [2, 0, 1])
    return first - turned(self, [2, 0, 1]) * turned(other, [1, 2, 0])


@op("cosine_similarity")
def cosine_similarity(g, x1, x2, dim=1, eps=1e-8):
    if x1.shape != x2.shape:
        total = x1 + x2
        x1, x2 = (g.Expand(v, g.Shape(total)) for v in (x1, x2))
        x1.shape = x2.shape = total.shape
    size = lambda v: g.Max(g.reduce("L2", v, dim, True), float(eps))
    return summed(g, (x1 / size(x1)) * (x2 / size(x2)), dim)


@op("pairwise_distance")
def pairwise_distance(g, x1, x2, p=2.0, eps=1e-6, keepdim=False):
    return linalg_vector_norm(g, x1 - x2 + float(eps), p, -1, keepdim)


@op("cdist _cdist_forward")
def cdist(g, x1, x2, p=2.0, compute_mode=None):
    return linalg_vector_norm(g, g.unsqueeze(x1, x1.rank - 1) - g.unsqueeze(x2, x2.rank - 2), p, -1)


@op("pdist")
def pdist(g, self, p=2):
    rows, columns = two_of(g, g.size(self, 0), 1)
    return linalg_vector_norm(g, g.take(self, rows, 0) - g.take(self, columns, 0), p, -1)


@op("linalg_matrix_power matrix_power")
def linalg_matrix_power(g, self, n):
    if n < 1:
        raise NotImplementedError(f"onnx.export: matrix_power of {n} has no translation to ONNX")
    result = None
    while n:
        if n & 1:
            result = self if result is None else g.MatMul(result, self)
        n >>= 1
        self = g.MatMul(self, self) if n else self
    return result


@op("linalg_det det")
def linalg_det(g, self):
    return g.Det(self)


@op("logdet")
def logdet(g, self):
    return g.Log(g.Det(self))
