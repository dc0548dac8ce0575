"""Ratio of times PyTorch / Facula over the public ops at middle sizes, by turns in one process.

    python benchmarks/sweep.py [--threads 1] [--level v3] [--only TEXT] [--repeat 5] [--json FILE]

Needs PyTorch beside Facula. Every case is an expression, evaluated with the same data in both libraries. Cases that stand
under `TRAINED` are also timed with the gradients of all floating inputs that they name, or of a module's parameters. A time
is the minimum over alternating repeats; only the ratio means anything, and it is PyTorch's time over Facula's.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import time

import numpy
import torch
from machine import add_level, at_level, describe

import facula

SHORTEST = 0.5e-3  # seconds that one measurement lasts at least: shorter than what a scheduler gives to other programs
LONGEST = 1.0  # seconds spent on a case whose times do not settle
AGREE = 1.03

ELEMENTWISE = """
x + y; x - y; x * y; x / y; x + 1.0; x * 2; 1.0 / p; x + row; x + column; x * row; x.t() + y; m.add(x, y, alpha=0.5); x // y
x % y; m.fmod(x, y); m.remainder(x, 3.0); m.pow(p, y); p ** 0.5; x ** 2; x ** 3; p ** 1.7; m.maximum(x, y); m.minimum(x, y)
m.fmax(x, y); m.atan2(x, y); m.hypot(x, y); m.copysign(x, y); m.lerp(x, y, 0.3); m.lerp(x, y, u); m.addcmul(x, y, p)
m.addcdiv(x, y, p); m.clamp(x, -1, 1); m.clamp(x, min=0); x.clamp(x - 1, x + 1); m.abs(x); m.neg(x); m.sign(x); m.sgn(x)
m.square(x); m.sqrt(p); m.rsqrt(p); m.reciprocal(p); m.floor(x); m.ceil(x); m.round(x); m.round(x, decimals=2); m.trunc(x)
m.frac(x); m.log2(p); m.log10(p); m.log1p(p); m.expm1(x); m.exp2(x); m.cos(x); m.tan(x); m.asin(u); m.acos(u); m.atan(x)
m.sinh(x); m.cosh(x); m.asinh(x); m.acosh(p + 1); m.atanh(u * 0.9); m.sigmoid(x); m.logit(u); m.erfc(x); m.erfinv(u)
m.lgamma(p); m.digamma(p); m.special.i0(x); m.special.i1(x); m.special.ndtr(x); m.special.ndtri(u); m.special.entr(u)
m.special.xlogy(x, p); m.logaddexp(x, y); m.logaddexp2(x, y); m.deg2rad(x); m.nan_to_num(x); m.sinc(x); m.heaviside(x, y)
m.nextafter(x, y); m.ldexp(x, y); m.frexp(x); m.polygamma(1, p); m.special.zeta(p + 2, p); m.igamma(p, u); m.float_power(p, 2)
m.isnan(x); m.isinf(x); m.isfinite(x); m.signbit(x); x > y; x == y; x != 0; x <= 0.5; m.isclose(x, y); m.logical_and(b, c)
m.logical_not(b); m.logical_or(b, c); m.logical_xor(b, c); b & c; ~b; i & j; i ^ 3; i << 2; i >> 1; ~i; i + j; i * j; i // j
i % j; i // 7; m.gcd(i, j); i == j; i > 5; i.float(); i / j; i8 + i8; i8 * 2; u8 + u8; i32 * i32; i32 + 1
m.bitwise_and(i32, 7); x.double(); x.long(); x.int(); x.bool(); x.half(); x.bfloat16(); b.float(); h.float(); f16.float()
d.float(); u8.float(); i.bool(); d + d; d * 2.0; m.sqrt(d * d); d / 3; m.exp(d); m.sin(d); m.log(d * d); m.tanh(d)
m.sigmoid(d); m.erf(d); h + h; h * h; h * 2.0; m.exp(h); m.sigmoid(h); m.relu(h); h > 0; f16 + f16; f16 * f16; m.exp(f16)
m.relu(f16); z + z; z * z; m.abs(z); m.angle(z); m.exp(z); m.conj(z).resolve_conj(); z.real.clone(); m.view_as_real(z) * 2
m.complex(x, y); m.polar(p, y); x.add_(0.0); x.mul_(1.0); x.add_(y, alpha=0.0); x.clamp_(-10, 10); x.copy_(x2); x2.zero_()
x2.fill_(1.0); t3.div_(1.0); m.threshold(x, 0.1, 0.0); m.dropout(x, 0.5, True); m.rad2deg(x); m.positive(x)
x.masked_fill(b, 0.0); m.where(b, x, 0.0)
"""

REDUCTIONS = """
x.sum(); x.sum(0); x.sum(1); x.sum((0, 1)); c4.sum((0, 2, 3)); c4.sum(1); c4.sum((2, 3)); c4.mean((2, 3)); x.mean(); x.mean(0)
x.mean(1); x.mean(1, keepdim=True); x.t().sum(0); x.t().sum(1); x.var(); x.var(0); x.var(1); x.std(); x.std(1)
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
i8.sort(1); u8.sort(1); i32.sort(1); d.sort(1); short.sort(1); m.topk(x, 5); m.topk(x, 100); m.topk(short, 4)
m.topk(logits, 10); m.topk(flat, 1000); x.topk(5, dim=0); x.kthvalue(7); flat.kthvalue(1000); m.unique(flati)
m.unique(flati, return_inverse=True, return_counts=True); m.unique(wide); m.unique_consecutive(flati)
m.searchsorted(borders, x); m.bucketize(x, borders); m.bincount(flati); m.histc(x, 100); m.histc(x, 100, -4, 4)
m.isin(flati, few); m.argwhere(b); m.msort(x); m.unique(flat)
"""

INDEXING = """
x[rows]; x[:, cols]; x[rows, cols]; x[b]; x[:, ::2].clone(); x[10:200, 5:400].clone(); x[x > 0]; b.nonzero()
m.nonzero(b, as_tuple=True); x.index_select(0, rows); x.index_select(1, cols); table.index_select(0, tokens.reshape(-1))
m.gather(x, 1, at); m.gather(x, 0, at); m.take(x, at); m.take_along_dim(x, at, 1); x.masked_select(b); x2.scatter(1, at, y)
x2.scatter(1, at, 1.0); x2.scatter_add(1, at, y); x2.scatter_add(0, at, y); x2.index_add(0, rows, y); x2.index_add(1, cols, y)
x2.index_copy(0, rows, y); x2.index_fill(0, rows, 1.0); x2.index_put_((rows, cols), row)
x2.index_put_((rows,), y, accumulate=True); x2.scatter_reduce(1, at, y, 'amax'); x2.masked_scatter(b, y); x2.put_(at, y)
x2.__setitem__(b, 0.0); x2.__setitem__((slice(None), slice(0, 100)), 1.0); x2.__setitem__(rows, y); x2.masked_fill_(b, 0.0)
m.embedding(table, tokens); F.one_hot(flati.view(16, -1), 1000); i[rows]; i[b]; h[rows]; c4[:, :, ::2, ::2].clone()
short[longs]; flat[at]; m.triu(x); m.tril(x); m.triu(t3); x2.fill_diagonal_(1.0); m.diag(row); x.diag().clone()
m.diag_embed(s); m.tril_indices(512, 512); m.triu_indices(512, 512); m.block_diag(s, s)
m.index_reduce(x2, 0, rows, y, 'prod')
"""

SHAPES = """
x.t().contiguous(); t3.transpose(1, 2).contiguous(); c4.permute(0, 2, 3, 1).contiguous(); nhwc.contiguous()
heads.transpose(1, 2).contiguous(); heads.permute(0, 2, 3, 1).contiguous(); x.clone(); x.t().clone()
t3.permute(2, 1, 0).contiguous(); c4.contiguous(memory_format=m.channels_last); m.cat([x, y]); m.cat([x, y], 1)
m.cat([c4, c4], 1); m.cat(parts); m.cat(parts, 1); m.stack([x, y]); m.stack([x, y], -1); m.stack(parts, 1); m.hstack([x, y])
x.repeat(2, 2); x.repeat(1, 3); x.repeat_interleave(2, 0); x.repeat_interleave(2, 1); m.tile(row, (512, 1))
row.expand(512, 512).contiguous(); column.expand(512, 512).contiguous(); x.flip(0); x.flip(1); c4.flip(3); m.roll(x, 3, 1)
m.roll(x, (2, 3), (0, 1)); m.rot90(x); x.unfold(1, 8, 4).contiguous(); m.nn.functional.pad(x, (1, 1)); F.pad(c4, (1, 1, 1, 1))
F.pad(c4, (1, 1, 1, 1), mode='reflect'); F.pad(c4, (2, 2, 2, 2), mode='replicate'); F.pad(c4, (1, 1, 1, 1), mode='circular')
F.pad(series, (3, 3), mode='reflect'); F.pad(series, (3, 0)); m.meshgrid(row, row, indexing='ij')[0].contiguous()
m.cartesian_prod(q3, row, q3); m.combinations(row[:200]); m.chunk(x, 4)[1].clone(); m.split(x, 100, 1)[2].clone(); m.unbind(x)
m.vander(row, 64); m.kron(s, q3); x.view(m.int32).clone(); h.t().contiguous(); i8.t().contiguous(); d.t().contiguous()
b.t().contiguous(); z.t().contiguous(); F.pixel_shuffle(c4, 2); F.pixel_unshuffle(c4, 2); F.channel_shuffle(c4, 4)
x.movedim(0, 1).contiguous(); x.reshape(256, 2, 512).transpose(0, 1).reshape(512, 512); x.t().reshape(-1)
m.atleast_3d(x).clone(); m.nn.utils.rnn.pad_sequence(ragged, True)
"""

CREATION = """
m.zeros(512, 512); m.ones(512, 512); m.full((512, 512), 2.0); m.empty(512, 512); m.arange(262144); m.arange(262144.)
m.linspace(0, 1, 262144); m.eye(512); m.logspace(0, 1, 262144); m.zeros_like(x); m.ones_like(i); m.full_like(x, 3)
m.rand(512, 512); m.randn(512, 512); m.randint(0, 100, (512, 512)); m.randperm(100000); m.bernoulli(u); m.multinomial(u, 10)
m.multinomial(u, 100, True); x2.normal_(); x2.uniform_(); x2.exponential_(); m.normal(x, u); m.rand_like(x); m.randn_like(x)
m.rand(512, 512, dtype=m.float64); m.randn(512, 512, dtype=m.float64); m.poisson(p); x2.log_normal_(); x2.geometric_(0.3)
x2.cauchy_(); x2.random_(0, 10); m.hann_window(65536); m.hamming_window(65536); m.tensor(listed); m.as_tensor(array)
m.from_numpy(array) + 1; x.numpy(); m.tensor(array); flat[:20000].tolist(); F.dropout(x, 0.1); F.alpha_dropout(x, 0.1)
F.dropout2d(c4, 0.5); F.gumbel_softmax(x); m.distributions.Normal(0., 1.).sample((512, 512))
m.distributions.Categorical(logits=logits).sample(); m.distributions.Gamma(p, p).sample(); m.distributions.Beta(p, p).sample()
"""

PRODUCTS = """
m.bmm(t3, t3t); m.matmul(x, row); m.mv(x, row); m.dot(flat, flat); m.outer(row, row); m.addmm(row, x, y)
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
m.fft.fftn(t3); m.fft.fft(flat); m.fft.rfft(odd); m.fft.fftshift(x); m.fft.fftfreq(65536)
m.stft(wave, 512, 128, window=window, return_complex=True); m.istft(spectrum, 512, 128, window=window); m.fft.fft(dline)
m.fft.rfft(dline); m.fft.ifft2(zplane)
"""

TRAINED = """
F.relu(x); F.gelu(x); F.gelu(x, approximate='tanh'); F.silu(x); F.elu(x); F.selu(x); F.celu(x); F.leaky_relu(x, 0.1)
F.hardtanh(x); F.relu6(x); F.hardswish(x); F.hardsigmoid(x); F.softplus(x); F.mish(x); F.logsigmoid(x); F.softsign(x)
F.tanhshrink(x); F.hardshrink(x); F.softshrink(x); F.glu(x); F.prelu(c4, weight16); F.rrelu(x); m.sigmoid(x); m.tanh(x)
F.softmax(x, 1); F.softmax(x, 0); F.log_softmax(x, 1); F.log_softmax(x, 0); F.softmax(attention, -1); F.softmin(x, 1)
F.normalize(x, dim=1); F.cosine_similarity(x, y); F.pairwise_distance(x, y); F.layer_norm(x, (512,), row, row)
F.rms_norm(x, (512,), row); F.group_norm(c4, 4, weight16, weight16); F.instance_norm(c4)
F.batch_norm(c4, mean16, var16, weight16, weight16, True); F.batch_norm(c4, mean16, var16, weight16, weight16)
F.batch_norm(x, mean512, var512, row, row, True); F.local_response_norm(c4, 5); F.linear(x, y, row)
F.linear(t3, weight, bias256); F.bilinear(s, s, cube, bias64); F.embedding(tokens, table); F.embedding_bag(tokens, table)
F.cross_entropy(logits, labels); F.cross_entropy(logits, labels, label_smoothing=0.1); F.cross_entropy(maps, mapped)
F.nll_loss(x, labels512); F.mse_loss(x, y); F.l1_loss(x, y); F.smooth_l1_loss(x, y); F.huber_loss(x, y)
F.binary_cross_entropy(u, t); F.binary_cross_entropy_with_logits(x, t); F.kl_div(x, t, reduction='batchmean')
F.gaussian_nll_loss(x, y, p); F.poisson_nll_loss(x, p); F.cosine_embedding_loss(x, y, sign512)
F.margin_ranking_loss(x, y, signs); F.triplet_margin_loss(x, y, p); F.hinge_embedding_loss(x, signs)
F.soft_margin_loss(x, signs); F.multilabel_soft_margin_loss(x, t); F.multi_margin_loss(x, labels512)
F.ctc_loss(ctc, spoken, lengths_in, lengths_out); F.conv2d(c4, kernel, bias16, padding=1); F.conv2d(c4, kernel, stride=2)
F.conv2d(c4, point); F.conv2d(rgb, patch, stride=16); F.conv2d(rgb, stem, stride=2, padding=3)
F.conv2d(nhwc, kernel, padding=1); F.conv2d(c4, deep, padding=1, groups=16); F.conv2d(mid, deep64, padding=1, groups=64)
F.conv2d(mid, grouped, padding=1, groups=4); F.conv2d(c4, kernel, padding=2, dilation=2); F.conv1d(series, kernel1, padding=2)
F.conv1d(seq1, kernel1s, padding=1); F.conv3d(vol, kernel3, padding=1); F.conv_transpose2d(c4, kernelt, stride=2)
F.conv_transpose1d(seq1, kernel1s); F.conv_transpose3d(vol, kernel3); F.max_pool2d(c4, 2); F.max_pool2d(c4, 3, 2, 1)
F.avg_pool2d(c4, 2); F.avg_pool2d(c4, 3, 1, 1); F.adaptive_avg_pool2d(c4, 1); F.adaptive_avg_pool2d(c4, 7)
F.adaptive_max_pool2d(c4, 7); F.max_pool1d(series, 2); F.avg_pool1d(series, 4); F.max_pool3d(vol, 2); F.avg_pool3d(vol, 2)
F.lp_pool2d(c4, 2, 2); F.adaptive_avg_pool1d(series, 64); F.max_pool2d(nhwc, 2); F.interpolate(c4, scale_factor=2)
F.interpolate(c4, scale_factor=2, mode='bilinear'); F.interpolate(c4, size=(20, 20), mode='bilinear')
F.interpolate(c4, scale_factor=2, mode='bicubic'); F.interpolate(c4, size=(20, 20), mode='area')
F.interpolate(c4, size=(24, 24), mode='bilinear', antialias=True); F.interpolate(series, scale_factor=2, mode='linear')
F.interpolate(vol, scale_factor=2, mode='trilinear'); F.interpolate(nhwc, scale_factor=2, mode='bilinear')
F.grid_sample(c4, grid, align_corners=False); F.grid_sample(c4, grid, mode='nearest', align_corners=False)
F.grid_sample(c4, grid, mode='bicubic', align_corners=False)
F.grid_sample(c4, grid, padding_mode='reflection', align_corners=True)
F.affine_grid(theta, (8, 3, 64, 64), align_corners=False); F.unfold(c4, 3, padding=1); F.fold(columns, (32, 32), 3, padding=1)
F.scaled_dot_product_attention(qkv, qkv, qkv); F.scaled_dot_product_attention(qkv, qkv, qkv, is_causal=True)
F.scaled_dot_product_attention(qkv, qkv, qkv, attn_mask=mask); x.cumsum(1); x.cumprod(1); x.sum(1); x.mean(0); x.max(1)[0]
x.amax(1); x.var(1); x.std(0); x.norm(dim=1); x.logsumexp(1); m.sort(x, 1)[0]; m.topk(x, 5)[0]; x[rows]; x[:, cols]
x[rows, cols]; x[b]; m.gather(x, 1, at); x.index_select(0, rows); m.cat([x, y], 1); m.stack([x, y]); x.masked_fill(b, 0.0)
x.t().contiguous(); x * row; x + column; x / y; x ** 2; m.sqrt(p); m.clamp(x, -1, 1); m.maximum(x, y); F.pad(c4, (1, 1, 1, 1))
F.pad(c4, (1, 1, 1, 1), mode='reflect'); m.einsum('bhqd,bhkd->bhqk', qkv, qkv); x.flip(1); m.roll(x, 3, 1); m.tril(x)
m.lerp(x, y, 0.3); m.abs(x); x.prod(1); x.repeat(2, 2); x.expand(4, 512, 512).contiguous(); m.cdist(s, s); m.linalg.inv(spd)
m.linalg.cholesky(spd); m.linalg.svd(s)[1]; F.dropout(x, 0.5); m.linalg.eigh(spd)[0]; m.fft.rfft(series).abs()
"""

MODULES = """
nn.Linear(512, 512) | x
nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 64)) | x
nn.LSTM(64, 128) | sequence
nn.LSTM(64, 64, num_layers=2, bidirectional=True, batch_first=True) | batched
nn.GRU(64, 128) | sequence
nn.RNN(64, 128) | sequence
nn.LSTMCell(64, 128) | frame
nn.GRUCell(64, 128) | frame
nn.MultiheadAttention(64, 4, batch_first=True) | batched, batched, batched
nn.TransformerEncoderLayer(64, 4, 256, 0.0, batch_first=True) | batched
nn.TransformerDecoderLayer(64, 4, 256, 0.0, batch_first=True) | batched, batched
nn.BatchNorm2d(16) | c4
nn.BatchNorm1d(512) | x
nn.LayerNorm(512) | x
nn.GroupNorm(4, 16) | c4
nn.Conv2d(16, 32, 3, padding=1) | c4
nn.Conv1d(16, 32, 5) | series
nn.ConvTranspose2d(16, 8, 4, 2, 1) | c4
nn.Embedding(1000, 64) | tokens
nn.Upsample(scale_factor=2, mode='nearest') | c4
nn.Bilinear(64, 64, 64) | s, s
nn.PReLU() | x
"""


NORMAL = """
spd 64x64; smallspd 256x4x4
x 512x512; y 512x512; x2 512x512; row 512; column 512x1; flat 262144; s 64x64; short 16384x16; logits 256x1000
maps 4x21x64x64; table 1000x64; c4 16x16x32x32; rgb 4x3x128x128; mid 8x64x28x28; vol 2x8x16x32x32; series 16x16x1024
seq1 8x64x512; kernel 16x16x3x3; point 32x16x1x1; patch 64x3x16x16; stem 32x3x7x7; deep 16x1x3x3; deep64 64x1x3x3
grouped 64x16x3x3; kernel1 16x16x5; kernel1s 64x64x3; kernel3 8x8x3x3x3; kernelt 16x8x4x4; bias16 16; weight16 16; mean16 16
mean512 512; weight 256x64; bias256 256; bias64 64; cube 64x64x64; t3 64x64x64; t3t 64x64x64; t3b 64x64x64; qkv 4x8x128x64
attention 32x128x64; mask 128x128; heads 8x128x8x32; theta 8x2x3; columns 16x144x1024; ctc 64x16x32; triples 65536x3
small 256x4x4; odd 64x1021; wave 4x32000; sequence 32x16x64; batched 16x32x64; frame 64x64
"""  # names and shapes of float32 inputs with normally distributed elements


CONSTANT = ("t", "mask", "grid", "signs", "sign512", "mean16", "mean512", "var16", "var512")  # no gradient is asked of these


def arrays() -> dict[str, numpy.ndarray]:
    """The inputs. Floating ones are float32 (and named differently where not); integers index what their cases index."""
    r = numpy.random.default_rng(0)
    names = {}
    for name, shape in (item.split(" ") for item in re.split(r"; |\n", NORMAL.strip())):
        names[name] = r.standard_normal([int(size) for size in shape.split("x")], numpy.float32)

    def z(*shape):
        return (r.standard_normal(shape) + 1j * r.standard_normal(shape)).astype(numpy.complex64)

    def uniform(*shape):
        return r.random(shape, numpy.float32)

    spd, smallspd = names["spd"], names["smallspd"]
    integers = {
        "i": (0, 100, (512, 512)), "j": (1, 100, (512, 512)), "at": (0, 512, (512, 512)), "rows": (0, 512, 512),
        "cols": (0, 512, 512),
        "flati": (0, 1000, 262144), "wide": (0, 1 << 40, 262144), "few": (0, 1000, 100), "longs": (0, 16384, 16384),
        "labels": (0, 1000, 256), "labels512": (0, 512, 512), "mapped": (0, 21, (4, 64, 64)), "tokens": (0, 1000, (32, 128)),
        "spoken": (1, 32, (16, 20)), "lengths_in": (64, 65, 16), "lengths_out": (20, 21, 16),
    }
    return names | {name: r.integers(*given) for name, given in integers.items()} | {
        "i8": r.integers(-100, 100, (512, 512), numpy.int8), "u8": r.integers(0, 255, (512, 512), numpy.uint8),
        "i32": r.integers(0, 9999, (512, 512), numpy.int32), "b": r.random((512, 512)) > 0.5, "c": r.random((512, 512)) > 0.5,
        "p": uniform(512, 512) * 3 + 0.05, "u": uniform(512, 512) * 0.98 + 0.01, "t": uniform(512, 512),
        "var16": uniform(16) + 0.1, "var512": uniform(512) + 0.1, "grid": uniform(16, 32, 32, 2) * 2.2 - 1.1,
        "sign512": r.choice(numpy.float32([-1, 1]), 512), "signs": r.choice(numpy.float32([-1, 1]), (512, 512)),
        "q3": numpy.float32([0.1, 0.5, 0.9]), "borders": numpy.sort(r.standard_normal(100, numpy.float32)),
        "spd": spd @ spd.T + 64 * numpy.eye(64, dtype=numpy.float32),
        "smallspd": smallspd @ smallspd.transpose(0, 2, 1) + 4 * numpy.eye(4, dtype=numpy.float32),
        "window": numpy.hanning(512).astype(numpy.float32),
        "d": r.standard_normal((512, 512)), "dline": r.standard_normal((64, 1024)),
        "z": z(256, 512), "zline": z(64, 2048), "half": z(64, 1025), "zplane": z(8, 64, 64), "spectrum": z(4, 257, 251),
    }


def scope(m, data: dict[str, numpy.ndarray]) -> dict:
    """What the expressions of one library see."""
    names = {name: m.from_numpy(value).clone() for name, value in data.items()}
    names["h"] = names["x"].to(m.bfloat16)
    names["f16"] = names["x"].to(m.float16)
    names["nhwc"] = names["c4"].contiguous(memory_format=m.channels_last)
    names["parts"] = [names["x"][k * 32 : k * 32 + 32].clone() for k in range(16)]
    names["ragged"] = [names["x"][: 10 + 7 * k] for k in range(64)]
    names["ctc"] = names["ctc"].log_softmax(2)
    return names | {"m": m, "F": m.nn.functional, "nn": m.nn, "array": data["x"], "listed": data["flat"][:20000].tolist()}


class Case:
    """One expression in one library, ready to be timed."""

    def __init__(self, m, names: dict, text: str, trained: bool):
        self.grad = m.autograd.grad
        names = dict(names)
        self.leaves = []
        if " | " in text:
            build, given = text.split(" | ")
            m.manual_seed(0)
            names["module"] = eval(build, names)
            text = f"module({given})"
            self.leaves = list(names["module"].parameters()) if trained else []
        for name in re.findall(r"[a-z]\w*", text) if trained else ():
            value = names.get(name)
            if isinstance(value, m.Tensor) and value.dtype == m.float32 and not value.requires_grad and name not in CONSTANT:
                names[name] = value.detach().requires_grad_()
                self.leaves.append(names[name])
        self.run = eval(f"lambda: {text}", names)
        if trained:
            self.forward = self.run
            self.cotangent = m.ones_like(self.output())
            self.run = self.both
        else:
            self.no_grad = m.no_grad
            if "module" in names:
                names["module"].requires_grad_(False)

    def output(self):
        result = self.forward()
        while isinstance(result, tuple):
            result = result[0]
        return result

    def both(self):
        self.grad(self.output(), self.leaves, self.cotangent, allow_unused=True)

    def seconds(self, number: int, clock) -> float:
        run = self.run
        start = clock()
        for _ in range(number):
            run()
        return (clock() - start) / number


def cases():
    """(group, expression, with gradients)."""
    groups = {"elementwise": ELEMENTWISE, "reduce": REDUCTIONS, "scan": SCANS, "sort": SORTS, "index": INDEXING,
              "shape": SHAPES, "create": CREATION, "product": PRODUCTS, "spectrum": SPECTRA, "functional": TRAINED}
    for group, text in groups.items():
        for expression in re.split(r"; |\n", text.strip()):
            yield group, expression, False
            if group == "functional":
                yield group, expression, True
    for line in MODULES.strip().split("\n"):
        yield "module", line, False
        yield "module", line, True


def settled(times: list[float]) -> bool:
    """Whether the three least times agree: what took them was the work, not other programs."""
    least = sorted(times)[:3]
    return len(least) == 3 and least[2] <= AGREE * least[0]


def measure(pair: list[Case], repeat: int, clock) -> list[float]:
    """Least seconds of each side over alternating repeats: at least `repeat`, and more until either side has settled."""
    numbers = []
    for case in pair:
        case.run()
        numbers.append(max(1, min(2000, int(SHORTEST / max(case.seconds(1, clock), 1e-7)))))
    times: list[list[float]] = [[], []]
    last = time.perf_counter() + LONGEST
    while len(times[1]) < repeat or (time.perf_counter() < last and not all(map(settled, times))):
        for side, case in enumerate(pair):
            times[side].append(case.seconds(numbers[side], clock))
    return [min(side) for side in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="regular expression that a case must match")
    parser.add_argument("--repeat", type=int, default=7, help="least number of repeats")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", help="write the figures here")
    add_level(parser)
    options = parser.parse_args()
    at_level(options.level)
    # with one thread, processor time: what other programs take is not counted
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    data = arrays()
    rows, failed = [], []
    for module in (torch, facula):
        module.set_num_threads(options.threads)
    scopes = [(m, scope(m, data)) for m in (torch, facula)]
    for group, text, trained in cases():
        name = text + ("  [+ backward]" if trained else "")
        if not re.search(options.only, name):
            continue
        try:
            theirs, ours = measure([Case(m, names, text, trained) for m, names in scopes], options.repeat, clock)
        except Exception as error:  # a case that fails in either library is reported, not hidden
            failed.append((name, f"{type(error).__name__}: {str(error).splitlines()[0][:150]}"))
            continue
        times = {"torch_us": round(theirs * 1e6, 2), "facula_us": round(ours * 1e6, 2), "ratio": round(theirs / ours, 3)}
        rows.append({"group": group, "case": name} | times)
    rows.sort(key=lambda row: row["ratio"])
    for row in rows:
        print(f"{row['ratio']:8.2f}  {row['facula_us']:10.1f} us  {row['group']:12} {row['case']}")
    for name, error in failed:
        print(f"  FAILED  {name}: {error}")
    ratios = [row["ratio"] for row in rows]
    slow = sum(ratio < 0.9 for ratio in ratios)
    median = statistics.median(ratios)
    print(f"{len(rows)} cases: median ratio {median:.2f}, lowest {ratios[0]:.2f}, below 0.9: {slow}; failed {len(failed)}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"threads": options.threads, "machine": describe(), "failed": failed, "cases": rows}, file, indent=1)


if __name__ == "__main__":
    main()
