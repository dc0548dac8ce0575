"""Every loop over many elements can be stopped, and runs without the interpreter's lock: counted, not timed."""

from __future__ import annotations

import pytest

import facula

N = 1 << 19
LONG = {
    "bincount": lambda: facula.bincount(facula.arange(N) % 5000),
    "bincount of few": lambda: facula.bincount(facula.arange(N) % 50),
    "bincount with weights": lambda: facula.bincount(facula.arange(N) % 50, facula.ones(N)),
    "histc": lambda: facula.histc(facula.rand(N), 10),
    "histogram": lambda: facula.histogram(facula.rand(N), 10),
    "histogramdd": lambda: facula.histogramdd(facula.rand(N, 2), [4, 5]),
    "unique": lambda: facula.unique(facula.arange(N) % 999),
    "unique with inverse": lambda: facula.unique(facula.arange(N) % 999, return_inverse=True),
    "unique of rows": lambda: facula.unique(facula.arange(N).view(-1, 8) % 7, dim=0),
    "unique_consecutive": lambda: facula.unique_consecutive(facula.arange(N) // 3, return_counts=True),
    "isin": lambda: facula.isin(facula.arange(N), facula.arange(7)),
    "isin of many": lambda: facula.isin(facula.rand(N), facula.rand(N)),
    "index": lambda: facula.ones(9, 9)[facula.arange(N) % 9, facula.arange(N) % 9],
    "index_put_": lambda: facula.ones(9, 9).index_put_((facula.arange(N) % 9, facula.arange(N) % 9), facula.ones(()), accumulate=True),
    "repeat_interleave": lambda: facula.repeat_interleave(facula.ones(N, dtype=facula.int64)),
    "embedding_bag": lambda: facula.nn.functional.embedding_bag(facula.arange(N) % 9, facula.ones(9, 3), facula.arange(0, N, 4), mode="max"),
    "nonzero": lambda: facula.nonzero(facula.arange(N) % 2),
    "searchsorted": lambda: facula.searchsorted(facula.arange(999.0), facula.rand(N)),
    "sort": lambda: facula.rand(N).sort(),
    "sort of halves": lambda: facula.rand(N).half().sort(stable=True),
    "argsort of integers": lambda: (facula.arange(N) * 7919 % 1013).argsort(),
    "topk": lambda: facula.rand(N).topk(N // 2),
    "kthvalue": lambda: facula.rand(N).kthvalue(N // 2),
    "median": lambda: facula.rand(N).median(),
    "mode": lambda: (facula.arange(N) % 99).mode(),
    "quantile": lambda: facula.rand(N).quantile(0.3),
    "cumsum": lambda: facula.rand(N).cumsum(0),
    "cummax": lambda: facula.rand(N).cummax(0),
    "logcumsumexp": lambda: facula.rand(N).logcumsumexp(0),
    "poisson": lambda: facula.poisson(facula.full((N,), 3.0)),
    "rand": lambda: facula.rand(N),
    "randn": lambda: facula.randn(N),
    "randn of doubles": lambda: facula.randn(N, dtype=facula.float64),
    "randint": lambda: facula.randint(9, (N,)),
    "randperm": lambda: facula.randperm(N),
    "bernoulli": lambda: facula.bernoulli(facula.full((N,), 0.5)),
    "dropout": lambda: facula.nn.functional.dropout(facula.ones(N)),
    "exponential_": lambda: facula.empty(N).exponential_(),
    "log_normal_": lambda: facula.empty(N).log_normal_(),
    "geometric_": lambda: facula.empty(N).geometric_(0.5),
    "multinomial": lambda: facula.multinomial(facula.ones(99), N, replacement=True),
    "multinomial of rows": lambda: facula.multinomial(facula.ones(N // 8, 9), 4),
    "gamma": lambda: facula._standard_gamma(facula.full((N,), 2.0)),
    "dirichlet": lambda: facula._sample_dirichlet(facula.ones(N // 4, 4)),
    "binomial": lambda: facula.binomial(facula.full((N,), 9.0), facula.full((N,), 0.5)),
    "rrelu": lambda: facula.nn.functional.rrelu(facula.rand(N), training=True),
    "tril_indices": lambda: facula.tril_indices(1 << 10, 1 << 10),
    "cartesian": lambda: facula.combinations(facula.arange(1 << 10)),
    "kron": lambda: facula.kron(facula.ones(1 << 10), facula.ones(1 << 9)),
    "scatter_add": lambda: facula.zeros(9).scatter_add(0, facula.arange(N) % 9, facula.ones(N)),
    "scatter_reduce": lambda: facula.zeros(9).scatter_reduce(0, facula.arange(N) % 9, facula.ones(N), "amax"),
    "index_add": lambda: facula.zeros(9).index_add(0, facula.arange(N) % 9, facula.ones(N)),
    "index_add of one place": lambda: facula.zeros(9).index_add(0, facula.zeros(1, dtype=facula.int64).expand(N), facula.ones(1).expand(N)),
    "index_copy": lambda: facula.zeros(N).index_copy(0, facula.arange(N), facula.ones(N)),
    "masked_scatter": lambda: facula.zeros(N).masked_scatter(facula.ones(N, dtype=facula.bool), facula.ones(N)),
    "take": lambda: facula.arange(9.0).take(facula.arange(N) % 9),
    "put_": lambda: facula.zeros(9).put_(facula.arange(N) % 9, facula.ones(N), accumulate=True),
    "bucketize": lambda: facula.bucketize(facula.rand(N), facula.arange(9.0)),
    "embedding": lambda: facula.nn.functional.embedding(facula.arange(N) % 9, facula.ones(9, 2)),
    "ctc_loss": lambda: facula.nn.functional.ctc_loss(facula.rand(2000, 16, 20).log_softmax(-1), facula.ones(16, 30, dtype=facula.int64), facula.full((16,), 2000), facula.full((16,), 30)),
    "nll_loss": lambda: facula.nn.functional.nll_loss(facula.rand(N, 4), facula.arange(N) % 4, weight=facula.ones(4)),
    "cdist": lambda: facula.cdist(facula.rand(800, 9), facula.rand(800, 9), p=1.0),
    "max_unpool": lambda: facula.nn.functional.max_unpool1d(*facula.nn.functional.max_pool1d(facula.rand(1, 4, N), 2, return_indices=True), 2),
    "fractional_max_pool": lambda: facula.nn.functional.fractional_max_pool2d(facula.rand(4, 8, 200, 200), 2, output_size=90),
    "coalesce": lambda: facula.sparse_coo_tensor(facula.arange(N).flip(0)[None], facula.ones(N), (N,)).coalesce(),
    "to_sparse_csr": lambda: (facula.rand(800, 800) > 0.5).float().to_sparse_csr(),
    "from sparse": lambda: facula.eye(900).to_sparse().to_dense(),
    "stft": lambda: facula.stft(facula.rand(N), 512, window=facula.ones(512), return_complex=True),
    "fft of a prime": lambda: facula.fft.fft(facula.rand(2, 262_147)),
    "interpolate": lambda: facula.nn.functional.interpolate(facula.rand(1, 3, 300, 300), scale_factor=2, mode="bicubic"),
    "svd": lambda: facula.linalg.svdvals(facula.rand(4000, 6, 6)),
    "lu": lambda: facula.linalg.lu(facula.rand(4000, 6, 6)),
    "householder": lambda: facula.linalg.qr(facula.rand(4000, 6, 6)),
    "pad": lambda: facula.nn.functional.pad(facula.rand(1, 1, 700, 700), (3, 3, 3, 3), mode="reflect"),
    "cross": lambda: facula.cross(facula.rand(N // 3, 3), facula.rand(N // 3, 3), dim=1),
    "trace of many": lambda: facula.vmap(facula.trace)(facula.rand(50_000, 3, 3)),
    "quantize": lambda: facula.quantize_per_channel(facula.rand(900, 600), facula.full((900,), 0.1), facula.zeros(900, dtype=facula.int64), 0, facula.qint8),
}


@pytest.mark.parametrize("name", LONG)
def test_long_loops_ask_without_the_lock(name):
    """Every loop over many elements asks whether to stop: here each time that it could, which is else every 200 ms."""
    threads, interval = facula.get_num_threads(), facula._C._set_ask_interval(0)
    facula.set_num_threads(1)
    try:
        LONG[name]()
        before = facula._C._questions()
        LONG[name]()
        asked, with_lock = (b - a for a, b in zip(before, facula._C._questions()))
    finally:
        facula._C._set_ask_interval(interval)
        facula.set_num_threads(threads)
    assert asked > 0, "nothing asked"
    assert with_lock == 0, f"{with_lock} of {asked} questions were asked with the interpreter's lock held"
