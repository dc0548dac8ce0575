"""Measure the ratio of times PyTorch / Facula over the public ops, in three sizes and both directions, by turns in one
process.

    python benchmarks/sweep.py [--size small,middle,large] [--threads 1] [--level v3] [--only TEXT] [--json FILE]
    python benchmarks/sweep.py --scaling ...         Facula on one thread against Facula on two

Needs PyTorch beside Facula. Every case is an expression, evaluated with the same data in both libraries, forwards, and once
more with the gradients of all floating inputs that it names (or of a module's parameters) where PyTorch has such gradients.
A time is the minimum over alternating repeats; only the ratio means anything, and it is PyTorch's time over Facula's.

`--json FILE` is written while measuring; cases that the file already has and that are not measured now stay in it, so
a sweep can be taken in portions.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import time
from pathlib import Path

import numpy
import torch
from machine import add_level, at_level, describe

import facula

SHORTEST = 0.5e-3  # seconds that one measurement lasts at least: shorter than what a scheduler gives to other programs
LONGEST = 0.4  # seconds spent on a case whose times do not settle
LEAST = 3  # measurements of a case at least, however long they take
AGREE = 1.03
SIZES = ("small", "middle", "large")

# Lengths that cases and shapes are written with, per size. x has N x N elements: 256, 65,536 and 1,048,576.
LENGTHS = {
    "N": (16, 256, 1024), "S": (16, 64, 256), "Q": (8, 32, 96), "V": (32, 256, 1000), "M": (16, 32, 64),
    "B": (2, 8, 16), "C": (8, 8, 16), "H": (6, 32, 64), "L": (32, 1024, 4096), "K": (16, 64, 64), "E": (16, 64, 128),
    "T": (16, 128, 512), "W": (64, 512, 512), "R": (32, 4096, 65536), "D": (128, 1024, 1024),
}  # fmt: skip

ELEMENTWISE = """
x + y; x - y; x * y; x / y; x + 1.0; x * 2; 1.0 / p; x + row; x + column; x * row; x.t() + y; m.add(x, y, alpha=0.5); x // y
x % y; m.fmod(x, y); m.remainder(x, 3.0); m.pow(p, y); p ** 0.5; x ** 2; x ** 3; p ** 1.7; m.maximum(x, y); m.minimum(x, y)
m.fmax(x, y); m.atan2(x, y); m.hypot(x, y); m.copysign(x, y); m.lerp(x, y, 0.3); m.lerp(x, y, u); m.addcmul(x, y, p)
m.addcdiv(x, y, p); m.clamp(x, -1, 1); m.clamp(x, min=0); x.clamp(x - 1, x + 1); m.abs(x); m.neg(x); m.sign(x); m.sgn(x)
m.square(x); m.sqrt(p); m.rsqrt(p); m.reciprocal(p); m.floor(x); m.ceil(x); m.round(x); m.round(x, decimals=2); m.trunc(x)
m.frac(x); m.exp(x); m.log(p); m.sin(x); m.erf(x); m.log2(p); m.log10(p); m.log1p(p); m.expm1(x); m.exp2(x); m.cos(x)
m.tan(x); m.asin(u); m.acos(u); m.atan(x)
m.sinh(x); m.cosh(x); m.asinh(x); m.acosh(p + 1); m.atanh(u * 0.9); m.sigmoid(x); m.logit(u); m.erfc(x); m.erfinv(u)
m.lgamma(p); m.digamma(p); m.special.i0(x); m.special.i1(x); m.special.ndtr(x); m.special.ndtri(u); m.special.entr(u)
m.special.xlogy(x, p); m.logaddexp(x, y); m.logaddexp2(x, y); m.deg2rad(x); m.nan_to_num(x); m.sinc(x); m.heaviside(x, y)
m.nextafter(x, y); m.ldexp(x, y); m.frexp(x); m.polygamma(1, p); m.special.zeta(p + 2, p); m.igamma(p, u); m.float_power(p, 2)
m.isnan(x); m.isinf(x); m.isfinite(x); m.signbit(x); x > y; x == y; x != 0; x <= 0.5; m.isclose(x, y); m.logical_and(b, c)
m.logical_not(b); m.logical_or(b, c); m.logical_xor(b, c); b & c; ~b; i & j; i ^ 3; i << 2; i >> 1; ~i; i + j; i * j; i // j
i % j; i // 7; m.gcd(i, j); i == j; i > 5; i.float(); i / j; i8 + i8; i8 * 2; u8 + u8; i32 * i32; i32 + 1
m.bitwise_and(i32, 7); x.double(); x.long(); x.int(); x.bool(); x.half(); x.bfloat16(); b.float(); h.float(); f16.float()
d.float(); u8.float(); i.bool(); i.int(); i32.long(); i32.float(); b.long(); u8.long(); d.long(); x.to(m.uint8)
d + d; d * 2.0; m.sqrt(d * d); d / 3; m.exp(d); m.sin(d); m.log(d * d); m.tanh(d)
m.sigmoid(d); m.erf(d); h + h; h * h; h * 2.0; m.exp(h); m.sigmoid(h); m.relu(h); h > 0; f16 + f16; f16 * f16; m.exp(f16)
m.relu(f16); z + z; z * z; m.abs(z); m.angle(z); m.exp(z); m.conj(z).resolve_conj(); z.real.clone(); m.view_as_real(z) * 2
m.complex(x, y); m.polar(p, y); x.add_(0.0); x.mul_(1.0); x.add_(y, alpha=0.0); x.clamp_(-10, 10); x.copy_(x2); x2.zero_()
x2.fill_(1.0); t3.div_(1.0); m.threshold(x, 0.1, 0.0); m.dropout(x, 0.5, True); m.rad2deg(x); m.positive(x)
x.masked_fill(b, 0.0); m.where(b, x, 0.0); m.where(b, x, y)
"""

REDUCTIONS = """
x.sum(); x.sum(0); x.sum(1); x.sum((0, 1)); c4.sum((0, 2, 3)); c4.sum(1); c4.sum((2, 3)); c4.mean((2, 3)); x.mean(); x.mean(0)
x.mean(1); x.mean(1, keepdim=True); x.t().sum(0); x.t().sum(1); x.var(); x.var(0); x.var(1); x.std(); x.std(0); x.std(1)
m.var_mean(x, 1); x.prod(); x.prod(1); x.max(); x.min(); x.max(1); x.max(0); x.min(1); x.amax(0); x.amax(1); x.amin(1)
x.aminmax(dim=1); x.argmax(); x.argmax(0); x.argmax(1); x.argmin(1); b.any(); b.all(); b.any(1); b.all(0); b.sum(); b.sum(1)
i.sum(); i.sum(0); i.max(); i.max(1); i.float().mean(); u8.sum(); i32.sum(1); x.norm(); x.norm(dim=1); m.norm(x, p=1)
m.norm(x, 3, dim=1); m.linalg.vector_norm(x, 2, 0); m.linalg.vector_norm(x, float('inf')); m.linalg.matrix_norm(x)
x.logsumexp(1); x.logsumexp(0); m.nansum(x); m.nanmean(x, 1); m.count_nonzero(x); m.count_nonzero(x, dim=1); x.median()
x.median(1); m.nanmedian(x); x.mode(1); i.mode(1); m.quantile(x, 0.5); m.quantile(x, q3, dim=1); m.trace(x); m.dist(x, y)
m.equal(x, x2); m.allclose(x, x2); d.sum(); d.mean(1); d.max(1); h.sum(); h.sum(1); h.mean(0); h.max(1); f16.sum(1); z.sum()
x.double().sum(1); m.trapezoid(x); m.cov(s); m.corrcoef(s)
"""

SCANS = """
x.cumsum(0); x.cumsum(1); flat.cumsum(0); i.cumsum(1); b.cumsum(1); x.cumprod(1); x.cummax(1); x.cummin(0); x.logcumsumexp(1)
m.diff(x); m.diff(x, dim=0); d.cumsum(1); h.cumsum(1)
"""

SORTS = """
flat.sort(); flat.sort(descending=True); x.sort(1); x.sort(0); x.argsort(1); x.sort(stable=True); i.sort(1); flati.sort()
i8.sort(1); u8.sort(1); i32.sort(1); d.sort(1); short.sort(1); m.topk(x, 5); m.topk(x, N // 4); m.topk(short, 4)
m.topk(logits, 10); m.topk(flat, N); x.topk(5, dim=0); x.kthvalue(7); flat.kthvalue(N); m.unique(flati)
m.unique(flati, return_inverse=True, return_counts=True); m.unique(wide); m.unique_consecutive(flati)
m.searchsorted(borders, x); m.bucketize(x, borders); m.bincount(flati); m.histc(x, 100); m.histc(x, 100, -4, 4)
m.isin(flati, few); m.argwhere(b); m.msort(x); m.unique(flat)
"""

INDEXING = """
x[rows]; x[:, cols]; x[rows, cols]; x[b]; x[:, ::2].clone(); x[N // 8 : N // 2, N // 16 : -N // 8].clone(); x[x > 0]
x[0]; x[2:5]; b.nonzero()
m.nonzero(b, as_tuple=True); x.index_select(0, rows); x.index_select(1, cols); table.index_select(0, tokens.reshape(-1))
m.gather(x, 1, at); m.gather(x, 0, at); m.take(x, at); m.take_along_dim(x, at, 1); x.masked_select(b); x2.scatter(1, at, y)
x2.scatter(1, at, 1.0); x2.scatter_add(1, at, y); x2.scatter_add(0, at, y); x2.index_add(0, rows, y); x2.index_add(1, cols, y)
x2.index_copy(0, rows, y); x2.index_fill(0, rows, 1.0); x2.index_put_((rows, cols), row)
x2.index_put_((rows,), y, accumulate=True); x2.scatter_reduce(1, at, y, 'amax'); x2.masked_scatter(b, y); x2.put_(at, y)
x2.__setitem__(b, 0.0); x2.__setitem__((slice(None), slice(0, N // 4)), 1.0); x2.__setitem__(rows, y); x2.masked_fill_(b, 0.0)
F.one_hot(labels, V); i[rows]; i[b]; h[rows]; c4[:, :, ::2, ::2].clone()
short[longs]; flat[at]; m.triu(x); m.tril(x); m.triu(t3); x2.fill_diagonal_(1.0); m.diag(row); x.diag().clone()
m.diag_embed(s); m.tril_indices(N, N); m.triu_indices(N, N); m.block_diag(s, s); m.index_reduce(x2, 0, rows, y, 'prod')
"""

SHAPES = """
x.t().contiguous(); t3.transpose(1, 2).contiguous(); c4.permute(0, 2, 3, 1).contiguous(); nhwc.contiguous()
heads.transpose(1, 2).contiguous(); heads.permute(0, 2, 3, 1).contiguous(); x.clone(); x.t().clone()
t3.permute(2, 1, 0).contiguous(); c4.contiguous(memory_format=m.channels_last); m.cat([x, y]); m.cat([x, y], 1)
m.cat([c4, c4], 1); m.cat(parts); m.cat(parts, 1); m.stack([x, y]); m.stack([x, y], -1); m.stack(parts, 1); m.hstack([x, y])
x.repeat(2, 2); x.repeat(1, 3); x.repeat_interleave(2, 0); x.repeat_interleave(2, 1); m.tile(row, (N, 1))
row.expand(N, N).contiguous(); column.expand(N, N).contiguous(); x.expand(4, N, N).contiguous(); x.flip(0); x.flip(1)
c4.flip(3); m.roll(x, 3, 1)
m.roll(x, (2, 3), (0, 1)); m.rot90(x); x.unfold(1, 8, 4).contiguous(); m.nn.functional.pad(x, (1, 1)); F.pad(c4, (1, 1, 1, 1))
F.pad(c4, (1, 1, 1, 1), mode='reflect'); F.pad(c4, (2, 2, 2, 2), mode='replicate'); F.pad(c4, (1, 1, 1, 1), mode='circular')
F.pad(series, (3, 3), mode='reflect'); F.pad(series, (3, 0)); m.meshgrid(row, row, indexing='ij')[0].contiguous()
m.cartesian_prod(q3, row, q3); m.combinations(row[:200]); m.chunk(x, 4)[1].clone(); m.split(x, N // 5, 1)[2].clone()
m.unbind(x)
m.vander(row, 64); m.kron(s, q3); x.view(m.int32).clone(); h.t().contiguous(); i8.t().contiguous(); d.t().contiguous()
b.t().contiguous(); z.t().contiguous(); F.pixel_shuffle(c4, 2); F.pixel_unshuffle(c4, 2); F.channel_shuffle(c4, 4)
x.movedim(0, 1).contiguous(); x.reshape(N // 2, 2, N).transpose(0, 1).reshape(N, N); x.t().reshape(-1)
m.atleast_3d(x).clone(); m.nn.utils.rnn.pad_sequence(ragged, True); x.view(-1); x.reshape(-1, 4); x.unsqueeze(1); x.t()
"""

CREATION = """
m.zeros(N, N); m.ones(N, N); m.full((N, N), 2.0); m.empty(N, N); m.arange(N * N); m.arange(N * float(N))
m.linspace(0, 1, N * N); m.eye(N); m.logspace(0, 1, N * N); m.zeros_like(x); m.ones_like(i); m.full_like(x, 3)
m.rand(N, N); m.randn(N, N); m.randint(0, 100, (N, N)); m.randperm(N * N); m.bernoulli(u); m.multinomial(u, 10)
m.multinomial(u, 100, True); x2.normal_(); x2.uniform_(); x2.exponential_(); m.normal(x, u); m.rand_like(x); m.randn_like(x)
m.rand(N, N, dtype=m.float64); m.randn(N, N, dtype=m.float64); m.poisson(p); x2.log_normal_(); x2.geometric_(0.3)
x2.cauchy_(); x2.random_(0, 10); m.hann_window(N * N); m.hamming_window(N * N); m.tensor(listed); m.as_tensor(array)
m.from_numpy(array) + 1; x.numpy(); m.tensor(array); flat[:20000].tolist(); F.dropout(x, 0.1); F.alpha_dropout(x, 0.1)
F.dropout2d(c4, 0.5); F.gumbel_softmax(x); m.distributions.Normal(0., 1.).sample((N, N))
m.distributions.Categorical(logits=logits).sample(); m.distributions.Gamma(p, p).sample(); m.distributions.Beta(p, p).sample()
"""

PRODUCTS = """
x @ y; m.bmm(t3, t3t); m.matmul(x, row); m.mv(x, row); m.dot(flat, flat); m.outer(row, row); m.addmm(row, x, y)
m.baddbmm(t3b, t3, t3t); m.einsum('ij,kj->ik', x, y); m.einsum('bij,bjk->bik', t3, t3t); m.einsum('bhqd,bhkd->bhqk', qkv, qkv)
m.einsum('bij->bji', t3).contiguous(); m.einsum('ij,ij->i', x, y); m.tensordot(t3, t3, ([0, 1], [0, 1])); m.cdist(s, s)
m.cdist(s, s, p=1.0); m.cross(triples, triples, dim=1); m.linalg.multi_dot([s, s, s]); m.vdot(flat, flat); m.addr(x, row, row)
m.matrix_power(s, 3); m.linalg.inv(spd); m.linalg.det(spd); m.linalg.solve(spd, s); m.linalg.cholesky(spd); m.linalg.qr(s)
m.linalg.svd(s); m.linalg.eigh(spd); m.linalg.eigvals(s); m.linalg.lstsq(s, s); m.linalg.pinv(s); m.matrix_exp(s / 64)
m.linalg.lu(spd); m.linalg.solve_triangular(spd.triu(), s, upper=True); m.linalg.slogdet(small); m.linalg.inv(small)
m.linalg.det(small); m.linalg.solve(small, small); m.linalg.cholesky(smallspd); m.cholesky_solve(s, spd.cholesky())
m.linalg.svdvals(small); m.logdet(spd); m.pca_lowrank(s, 6)
"""

SPECTRA = """
m.fft.fft(series); m.fft.fft(zline); m.fft.ifft(zline); m.fft.rfft(series); m.fft.irfft(half); m.fft.fft2(c4); m.fft.rfft2(c4)
m.fft.fftn(t3); m.fft.fft(flat); m.fft.rfft(odd); m.fft.fftshift(x); m.fft.fftfreq(N * N); m.fft.rfft(series).abs()
m.stft(wave, W, W // 4, window=window, return_complex=True); m.istft(spectrum, W, W // 4, window=window); m.fft.fft(dline)
m.fft.rfft(dline); m.fft.ifft2(zplane)
"""

FUNCTIONS = """
F.relu(x); F.gelu(x); F.gelu(x, approximate='tanh'); F.silu(x); F.elu(x); F.selu(x); F.celu(x); F.leaky_relu(x, 0.1)
F.hardtanh(x); F.relu6(x); F.hardswish(x); F.hardsigmoid(x); F.softplus(x); F.mish(x); F.logsigmoid(x); F.softsign(x)
F.tanhshrink(x); F.hardshrink(x); F.softshrink(x); F.glu(x); F.prelu(c4, weightc); F.rrelu(x); m.tanh(x)
F.softmax(x, 1); F.softmax(x, 0); F.log_softmax(x, 1); F.log_softmax(x, 0); F.softmax(attention, -1); F.softmin(x, 1)
F.normalize(x, dim=1); F.cosine_similarity(x, y); F.pairwise_distance(x, y); F.layer_norm(x, (N,), row, row)
F.rms_norm(x, (N,), row); F.group_norm(c4, 4, weightc, weightc); F.instance_norm(c4)
F.batch_norm(c4, meanc, varc, weightc, weightc, True); F.batch_norm(c4, meanc, varc, weightc, weightc)
F.batch_norm(x, mean, var, row, row, True); F.local_response_norm(c4, 5); F.linear(x, y, row)
F.linear(t3, weight, row); F.bilinear(few1, few1, cube, biasm); F.embedding(tokens, table); F.embedding_bag(tokens, table)
F.cross_entropy(logits, labels); F.cross_entropy(logits, labels, label_smoothing=0.1); F.cross_entropy(maps, mapped)
F.nll_loss(x, targets); F.mse_loss(x, y); F.l1_loss(x, y); F.smooth_l1_loss(x, y); F.huber_loss(x, y)
F.binary_cross_entropy(u, t); F.binary_cross_entropy_with_logits(x, t); F.kl_div(x, t, reduction='batchmean')
F.gaussian_nll_loss(x, y, p); F.poisson_nll_loss(x, p); F.cosine_embedding_loss(x, y, sign)
F.margin_ranking_loss(x, y, signs); F.triplet_margin_loss(x, y, p); F.hinge_embedding_loss(x, signs)
F.soft_margin_loss(x, signs); F.multilabel_soft_margin_loss(x, t); F.multi_margin_loss(x, targets)
F.ctc_loss(ctc, spoken, lengths_in, lengths_out); F.conv2d(c4, kernel, biasc, padding=1); F.conv2d(c4, kernel, stride=2)
F.conv2d(c4, point); F.conv2d(rgb, patch, stride=16); F.conv2d(rgb, stem, stride=2, padding=3)
F.conv2d(nhwc, kernel, padding=1); F.conv2d(c4, deep, padding=1, groups=C); F.conv2d(mid, deepk, padding=1, groups=K)
F.conv2d(mid, grouped, padding=1, groups=4); F.conv2d(c4, kernel, padding=2, dilation=2); F.conv1d(series, kernel1, padding=2)
F.conv1d(seq1, kernel1s, padding=1); F.conv3d(vol, kernel3, padding=1); F.conv_transpose2d(c4, kernelt, stride=2)
F.conv_transpose1d(seq1, kernel1s); F.conv_transpose3d(vol, kernel3); F.max_pool2d(c4, 2); F.max_pool2d(c4, 3, 2, 1)
F.avg_pool2d(c4, 2); F.avg_pool2d(c4, 3, 1, 1); F.adaptive_avg_pool2d(c4, 1); F.adaptive_avg_pool2d(c4, 7)
F.adaptive_max_pool2d(c4, 7); F.max_pool1d(series, 2); F.avg_pool1d(series, 4); F.max_pool3d(vol, 2); F.avg_pool3d(vol, 2)
F.lp_pool2d(c4, 2, 2); F.adaptive_avg_pool1d(series, 64); F.max_pool2d(nhwc, 2); F.interpolate(c4, scale_factor=2)
F.interpolate(c4, scale_factor=2, mode='bilinear'); F.interpolate(c4, size=(H - 3, H - 3), mode='bilinear')
F.interpolate(c4, scale_factor=2, mode='bicubic'); F.interpolate(c4, size=(H - 3, H - 3), mode='area')
F.interpolate(c4, size=(H - 2, H - 2), mode='bilinear', antialias=True)
F.interpolate(series, scale_factor=2, mode='linear')
F.interpolate(vol, scale_factor=2, mode='trilinear'); F.interpolate(nhwc, scale_factor=2, mode='bilinear')
F.grid_sample(c4, grid, align_corners=False); F.grid_sample(c4, grid, mode='nearest', align_corners=False)
F.grid_sample(c4, grid, mode='bicubic', align_corners=False)
F.grid_sample(c4, grid, padding_mode='reflection', align_corners=True)
F.affine_grid(theta, (B, 3, H, H), align_corners=False); F.unfold(c4, 3, padding=1); F.fold(columns, (H, H), 3, padding=1)
F.scaled_dot_product_attention(qkv, qkv, qkv); F.scaled_dot_product_attention(qkv, qkv, qkv, is_causal=True)
F.scaled_dot_product_attention(qkv, qkv, qkv, attn_mask=mask)
"""

MODULES = """
nn.Linear(N, N) | x
nn.Sequential(nn.Linear(N, N), nn.ReLU(), nn.Linear(N, 64)) | x
nn.LSTM(E, 2 * E) | sequence
nn.LSTM(E, E, num_layers=2, bidirectional=True, batch_first=True) | sequence
nn.GRU(E, 2 * E) | sequence
nn.RNN(E, 2 * E) | sequence
nn.LSTMCell(E, 2 * E) | frame
nn.GRUCell(E, 2 * E) | frame
nn.MultiheadAttention(E, 4, batch_first=True) | sequence, sequence, sequence
nn.TransformerEncoderLayer(E, 4, 4 * E, 0.0, batch_first=True) | sequence
nn.TransformerDecoderLayer(E, 4, 4 * E, 0.0, batch_first=True) | sequence, sequence
nn.BatchNorm2d(C) | c4
nn.BatchNorm1d(N) | x
nn.LayerNorm(N) | x
nn.GroupNorm(4, C) | c4
nn.Conv2d(C, 32, 3, padding=1) | c4
nn.Conv1d(C, 32, 5) | series
nn.ConvTranspose2d(C, 8, 4, 2, 1) | c4
nn.Embedding(1000, 64) | tokens
nn.Upsample(scale_factor=2, mode='nearest') | c4
nn.Bilinear(M, M, M) | few1, few1
nn.PReLU() | x
"""

GROUPS = {
    "elementwise": ELEMENTWISE, "reduce": REDUCTIONS, "scan": SCANS, "sort": SORTS, "index": INDEXING, "shape": SHAPES,
    "create": CREATION, "product": PRODUCTS, "spectrum": SPECTRA, "functional": FUNCTIONS,
}  # fmt: skip

# float32 inputs with normally distributed elements: a name and its shape, in lengths
NORMAL = """
x N,N; y N,N; x2 N,N; row N; column N,1; flat N*N; s S,S; spd S,S; short R,16; logits N,V; table V,M; few1 R//32+16,M
cube M,M,M; biasm M; c4 B,C,H,H; kernel C,C,3,3; point 32,C,1,1; deep C,1,3,3; kernelt C,8,3,3; biasc C; weightc C; meanc C
mean N; mid B,K,H//2,H//2; deepk K,1,3,3; grouped K,K//4,3,3; rgb B,3,3*H+14,3*H+14; patch 64,3,16,16; stem 32,3,7,7
series B,C,L; kernel1 C,C,5; seq1 B,K,L//4; kernel1s K,K,3; vol B//2,8,H//2+1,H//2+1,H//2+1; kernel3 8,8,3,3,3
weight N,Q; t3 Q,Q,Q; t3t Q,Q,Q; t3b Q,Q,Q; qkv B//2,4,T,M; mask T,T; attention N//2,M,M; heads B,T,4,M//2; theta B,2,3
columns B,9*C,H*H; maps B//2,21,H+5,H+5; ctc T//4+8,B,V//2; triples R*4,3; small R,4,4; smallspd R,4,4; odd N,1021
wave B*2,V*W//16; sequence T//2,B,E; frame R//8,E; dlines N//4,D
"""

CONSTANT = ("t", "mask", "grid", "signs", "sign", "meanc", "mean", "varc", "var")  # no gradient is asked of these


def lengths(size: str) -> dict[str, int]:
    return {name: given[SIZES.index(size)] for name, given in LENGTHS.items()}


def arrays(n: dict[str, int], seed: int = 0) -> dict[str, numpy.ndarray]:
    """Return the inputs. Floating ones are float32 (and named differently where not); integers index what their cases index."""
    r = numpy.random.default_rng(seed)

    def normal(*shape):
        return r.standard_normal(shape, numpy.float32)

    def uniform(*shape):
        return r.random(shape, numpy.float32)

    def z(*shape):
        return (r.standard_normal(shape) + 1j * r.standard_normal(shape)).astype(numpy.complex64)

    names = {}
    for name, shape in (item.split(" ") for item in re.split(r"; |\n", NORMAL.strip())):
        names[name] = normal(*eval(f"({shape},)", dict(n)))
    side, count, rows = n["N"], n["N"] ** 2, n["R"]
    flips, spoken, frames = numpy.float32([-1, 1]), (n["B"], n["T"] // 16 + 2), 1 + names["wave"].shape[1] // (n["W"] // 4)
    spd, smallspd = names["spd"], names["smallspd"]
    integers = {
        "i": (0, 100, (side, side)), "j": (1, 100, (side, side)), "at": (0, side, (side, side)), "rows": (0, side, side),
        "cols": (0, side, side), "flati": (0, side, count), "wide": (0, 1 << 40, count), "few": (0, side, 100),
        "longs": (0, rows, rows), "labels": (0, n["V"], side), "targets": (0, side, side),
        "mapped": (0, 21, names["maps"][:, 0].shape), "tokens": (0, n["V"], (n["B"], rows // 32 + 16)),
        "spoken": (1, n["V"] // 2, spoken), "lengths_in": (len(names["ctc"]), len(names["ctc"]) + 1, n["B"]),
        "lengths_out": (spoken[1], spoken[1] + 1, n["B"]),
    }  # fmt: skip
    return names | {name: r.integers(*given) for name, given in integers.items()} | {
        "i8": r.integers(-100, 100, (side, side), numpy.int8), "u8": r.integers(0, 255, (side, side), numpy.uint8),
        "i32": r.integers(0, 9999, (side, side), numpy.int32), "b": r.random((side, side)) > 0.5,
        "c": r.random((side, side)) > 0.5, "p": uniform(side, side) * 3 + 0.05, "u": uniform(side, side) * 0.98 + 0.01,
        "t": uniform(side, side), "varc": uniform(n["C"]) + 0.1, "var": uniform(side) + 0.1,
        "grid": uniform(n["B"], n["H"], n["H"], 2) * 2.2 - 1.1, "sign": r.choice(flips, side),
        "signs": r.choice(flips, (side, side)), "q3": numpy.float32([0.1, 0.5, 0.9]), "borders": numpy.sort(normal(100)),
        "spd": spd @ spd.T + len(spd) * numpy.eye(len(spd), dtype=numpy.float32),
        "smallspd": smallspd @ smallspd.transpose(0, 2, 1) + 4 * numpy.eye(4, dtype=numpy.float32),
        "window": numpy.hanning(n["W"]).astype(numpy.float32), "d": r.standard_normal((side, side)),
        "dline": r.standard_normal((side, n["D"])), "z": z(side, side), "zline": z(side // 2, 2 * n["D"]),
        "half": z(side // 2, n["D"] + 1), "zplane": z(n["B"], n["M"], n["M"]),
        "spectrum": z(len(names["wave"]), n["W"] // 2 + 1, frames),
    }  # fmt: skip


def scope(m, data: dict[str, numpy.ndarray], n: dict[str, int]) -> dict:
    """Return what the expressions of one library see."""
    names = {name: m.from_numpy(value).clone() for name, value in data.items()}
    side = n["N"]
    names["h"] = names["x"].to(m.bfloat16)
    names["f16"] = names["x"].to(m.float16)
    names["nhwc"] = names["c4"].contiguous(memory_format=m.channels_last)
    names["parts"] = [names["x"][k * side // 16 : (k + 1) * side // 16].clone() for k in range(16)]
    names["ragged"] = [names["x"][: 1 + k * side // 64] for k in range(64)]
    names["ctc"] = names["ctc"].log_softmax(2)
    listed = data["flat"][:20000].tolist()
    return names | n | {"m": m, "F": m.nn.functional, "nn": m.nn, "array": data["x"], "listed": listed}


class Case:
    """Hold one expression in one library, ready to be timed."""

    def __init__(self, m, names: dict, text: str, trained: bool, threads: int):
        self.set_threads, self.threads, self.grad = m.set_num_threads, threads, m.autograd.grad
        names = dict(names)
        self.leaves = []
        if " | " in text:
            build, given = text.split(" | ")
            m.manual_seed(0)
            names["module"] = eval(build, names).requires_grad_(trained)
            text = f"module({given})"
            self.leaves = list(names["module"].parameters()) if trained else []
        for name in dict.fromkeys(re.findall(r"[a-z]\w*", text)) if trained else ():
            value = names.get(name)
            if isinstance(value, m.Tensor) and (value.is_floating_point() or value.is_complex()) and name not in CONSTANT:
                names[name] = value.detach().requires_grad_()
                self.leaves.append(names[name])
        self.run = eval(f"lambda: {text}", names)
        if trained:
            self.forward = self.run
            self.cotangent = m.ones_like(self.output())
            self.run = self.both

    def output(self):
        result = self.forward()
        while isinstance(result, (tuple, list)):
            result = result[0]
        return result

    def both(self):
        self.grad(self.output(), self.leaves, self.cotangent, allow_unused=True)

    def seconds(self, number: int, clock) -> float:
        run = self.run
        self.set_threads(self.threads)
        start = clock()
        for _ in range(number):
            run()
        return (clock() - start) / number


def cases():
    """Yield (group, expression)."""
    for group, text in GROUPS.items():
        for expression in re.split(r"; |\n", text.strip()):
            yield group, expression
    for line in MODULES.strip().split("\n"):
        yield "module", line


def differentiable(names: dict, text: str) -> bool:
    """Return whether PyTorch has a gradient of it."""
    try:
        case = Case(torch, names, text, True, 1)
        case.run()
        return bool(case.leaves)
    except (RuntimeError, TypeError, AttributeError):  # in place on a leaf, integers, numbers of Python
        return False


def settled(times: list[float]) -> bool:
    """Return whether the three least times agree: what took them was the work, not other programs."""
    least = sorted(times)[:3]
    return len(least) == 3 and least[2] <= AGREE * least[0]


def measure(pair: list[Case], repeat: int, clock) -> list[float]:
    """Return the least seconds of each side over alternating repeats: `repeat` where they are short, more until both have
    settled."""
    last = time.perf_counter() + LONGEST
    numbers = []
    for case in pair:
        case.seconds(1, clock)
        numbers.append(max(1, min(2000, int(SHORTEST / max(case.seconds(1, clock), 1e-7)))))
    times: list[list[float]] = [[], []]
    while len(times[1]) < LEAST or time.perf_counter() < last:
        if len(times[1]) >= repeat and all(map(settled, times)):
            break
        for side, case in enumerate(pair):
            times[side].append(case.seconds(numbers[side], clock))
    return [min(side) for side in times]


class Results:
    """Hold the rows measured so far, in a file where one is named."""

    def __init__(self, options: argparse.Namespace):
        self.path = Path(options.json) if options.json else None
        self.sides = ("one_us", "two_us") if options.scaling else ("torch_us", "facula_us")
        self.rows: list[dict] = []
        self.failed: list[list[str]] = []
        self.before: list[dict] = []
        self.written = time.perf_counter()
        if self.path and self.path.exists():
            self.before = json.loads(self.path.read_text())["cases"]

    def lacks(self, name: str, size: str, options: argparse.Namespace) -> bool:
        """Return whether the case is to be measured: with `--below`, only what the file has and is slower than that."""
        found = (row["ratio"] for row in self.before if self.key(row) == (name, size, options.threads))
        return options.below is None or next(found, options.below) < options.below

    @staticmethod
    def key(row: dict) -> tuple[str, str, int]:
        return row["case"], row["size"], row["threads"]

    def add(self, row: dict, pair: list[float]) -> None:
        for side, seconds in zip(self.sides, pair):
            row[side] = round(seconds * 1e6, 2)
        self.rows.append(row | {"ratio": round(pair[0] / pair[1], 3)})
        if time.perf_counter() > self.written + 5:
            self.write()

    def write(self) -> None:
        if not self.path:
            return
        new = {self.key(row) for row in self.rows}
        kept = [row for row in self.before if self.key(row) not in new]
        rows = sorted(kept + self.rows, key=lambda row: (row["threads"], SIZES.index(row["size"]), row["ratio"]))
        lines = ",\n".join(json.dumps(row) for row in rows)
        facts = json.dumps({"machine": describe(), "failed": self.failed})
        self.path.write_text(f'{facts[:-1]}, "cases": [\n{lines}\n]}}\n')
        self.written = time.perf_counter()

    def show(self) -> None:
        for row in sorted(self.rows, key=lambda row: row["ratio"]):
            print(f"{row['ratio']:8.2f}  {row[self.sides[1]]:10.1f} us  {row['size']:6} {row['group']:12} {row['case']}")
        for failure in self.failed:
            print("  FAILED ", *failure)
        for size in SIZES:
            ratios = [row["ratio"] for row in self.rows if row["size"] == size]
            slow = sum(ratio < 0.9 for ratio in ratios)
            if ratios:
                median = statistics.median(ratios)
                print(f"{size}: {len(ratios)} cases, median {median:.2f}, lowest {min(ratios):.2f}, below 0.9: {slow}")


def sweep(size: str, options: argparse.Namespace, results: Results) -> None:
    # with one thread, processor time: what other programs take is not counted
    clock = time.thread_time if options.threads == 1 and not options.scaling else time.perf_counter
    n = lengths(size)
    data = arrays(n)
    theirs, ours = scope(torch, data, n), scope(facula, data, n)
    sides = [(torch, theirs, options.threads), (facula, ours, options.threads)]
    if options.scaling:
        sides = [(facula, ours, 1), (facula, ours, 2)]
    for group, text in cases():
        for trained in (False, True):
            name = text + ("  [+ backward]" if trained else "")
            if not re.search(options.only, f"{group}: {name}") or not results.lacks(name, size, options):
                continue
            if trained and not differentiable(theirs, text):
                continue
            try:
                pair = measure([Case(m, names, text, trained, threads) for m, names, threads in sides], options.repeat, clock)
            except Exception as error:  # a case that fails in either library is reported, not hidden
                results.failed.append([size, name, f"{type(error).__name__}: {str(error).splitlines()[0][:150]}"])
                continue
            results.add({"group": group, "case": name, "size": size, "threads": options.threads}, pair)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default=",".join(SIZES), help="of small, middle and large, with commas between")
    parser.add_argument("--only", default="", help="regular expression that `group: case` must match")
    parser.add_argument("--repeat", type=int, default=7, help="least number of repeats of short cases")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--scaling", action="store_true", help="compare one thread of Facula with two")
    parser.add_argument("--json", help="write the figures here")
    parser.add_argument("--below", type=float, help="measure only what the file has with a lower ratio, once more")
    add_level(parser)
    options = parser.parse_args()
    at_level(options.level)
    if options.scaling:
        options.threads = 2
    torch.set_num_threads(options.threads)
    results = Results(options)
    for size in options.size.split(","):
        sweep(size, options, results)
    results.write()
    results.show()


if __name__ == "__main__":
    main()
