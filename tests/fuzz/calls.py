"""Calls that work, as texts: from the schema's samples, from the tests, and from the tables below.

They are the seeds of both fuzzers. A `Seed` is the text and its holes: where an argument stands, and of what type it is.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
if str(TESTS) not in sys.path:
    sys.path.append(str(TESTS))

import op_samples  # noqa: E402

import facula  # noqa: E402
from facula import nn, optim  # noqa: E402


@dataclass(frozen=True)
class Hole:
    start: int
    end: int
    type: str  # a type of the schema, without "?"
    compound: bool = False  # whether a postfix needs parentheses around it


@dataclass(frozen=True)
class Seed:
    text: str
    holes: tuple[Hole, ...]
    insert: int  # where a keyword argument can be added
    keywords: tuple[tuple[str, str], ...] = ()  # (name, type) of arguments that are not given
    op: object = None  # the schema's entry

    @property
    def name(self) -> str:
        return self.text.split("(")[0]


FUNCTIONAL = """
F.adaptive_avg_pool1d(x(2, 3, 8), 3)
F.adaptive_avg_pool2d(x(1, 2, 5, 6), (2, 3))
F.adaptive_avg_pool3d(x(1, 2, 4, 5, 6), (2, None, 3))
F.adaptive_max_pool1d(x(2, 3, 8), 3, True)
F.adaptive_max_pool2d(x(1, 2, 5, 6), (2, 3), return_indices=True)
F.adaptive_max_pool3d(x(1, 2, 4, 5, 6), 2, return_indices=True)
F.affine_grid(x(2, 2, 3), [2, 3, 4, 5], align_corners=False)
F.affine_grid(x(1, 3, 4), [1, 2, 3, 4, 5], align_corners=True)
F.alpha_dropout(x(2, 3), 0.0, True, False)
F.avg_pool1d(x(2, 3, 8), 3, 2, 1, True, False)
F.avg_pool2d(x(1, 2, 6, 7), (3, 2), 2, 1, False, True, 3)
F.avg_pool3d(x(1, 2, 4, 5, 6), 2, 2, 0, False, False)
F.batch_norm(x(4, 3, 5), x(3), x(3, low=0.5), x(3), x(3), True, 0.1, 1e-05)
F.batch_norm(x(4, 3), x(3), x(3, low=0.5), None, None, False)
F.bilinear(x(4, 3), x(4, 5), x(2, 3, 5), x(2))
F.binary_cross_entropy(x(3, 4, low=0.1, high=0.9), x(3, 4, low=0.0, high=1.0), x(3, 4), reduction='none')
F.binary_cross_entropy_with_logits(x(3, 4), x(3, 4, low=0.0, high=1.0), x(3, 4), pos_weight=x(4), reduction='mean')
F.celu(x(3, 4), 0.7)
F.channel_shuffle(x(1, 6, 2, 2), 3)
F.conv1d(x(2, 4, 9), x(6, 2, 3), x(6), 2, 1, 1, 2)
F.conv1d(x(4, 9), x(6, 4, 3), None, 1, 'same')
F.conv2d(x(2, 3, 6, 7), x(4, 3, 3, 2), x(4), (1, 2), (1, 0), 1, 1)
F.conv2d(x(1, 4, 6, 6), x(4, 1, 3, 3), None, 1, 'valid', 2, 4)
F.conv3d(x(1, 2, 4, 5, 5), x(3, 2, 2, 3, 3), x(3), 1, 1, 1, 1)
F.conv_tbc(x(5, 2, 3), x(3, 3, 4), x(4), 1)
F.conv_transpose1d(x(2, 4, 5), x(4, 3, 3), x(3), 2, 1, 1, 1, 1)
F.conv_transpose2d(x(1, 4, 4, 5), x(4, 2, 3, 3), x(4), (2, 1), 1, (1, 0), 2, 1)
F.conv_transpose3d(x(1, 2, 3, 3, 3), x(2, 3, 2, 2, 2), None, 2, 0, 0, 1, 1)
F.cosine_embedding_loss(x(3, 4), x(3, 4, low=-1.0), facula.tensor([1, -1, 1]), 0.1, reduction='mean')
F.cosine_similarity(x(3, 4), x(3, 4, low=-1.0), 1, 1e-08)
F.cross_entropy(x(3, 5), k(3), x(5, low=0.1), ignore_index=-100, reduction='mean', label_smoothing=0.1)
F.cross_entropy(x(2, 3, 4, 4), k(2, 4, 4), reduction='none')
F.cross_entropy(x(3, 5), x(3, 5, low=0.1, high=0.3), reduction='sum')
F.ctc_loss(x(6, 2, 4).log_softmax(-1), k(2, 3) + 1, facula.tensor([6, 5]), facula.tensor([3, 2]), 0, 'mean', True)
F.ctc_loss(x(6, 2, 4).log_softmax(-1), k(5) + 1, (6, 5), (3, 2), 0, 'none', False)
F.dropout(x(3, 4), 0.0, True)
F.dropout1d(x(2, 3, 4), 0.0)
F.dropout2d(x(2, 3, 4, 4), 0.0)
F.dropout3d(x(2, 3, 4, 2, 2), 0.0)
F.elu(x(3, 4), 1.5, False)
F.embedding(k(2, 4), x(5, 3), 1, None, 2.0, False, False)
F.embedding(k(2, 4), x(5, 3), -1, 1.0, 2.0, True)
F.embedding_bag(k(6), x(5, 3), facula.tensor([0, 2, 5]), mode='sum', per_sample_weights=x(6), include_last_offset=False)
F.embedding_bag(k(2, 3), x(5, 3), None, 1.0, 2, False, 'mean', padding_idx=1)
F.embedding_bag(k(6), x(5, 3), facula.tensor([0, 2, 6]), mode='max', include_last_offset=True)
F.feature_alpha_dropout(x(2, 3, 4), 0.0, True)
F.fold(x(2, 12, 6), (3, 4), (2, 2), 1, 0, 1)
F.fractional_max_pool2d(x(2, 3, 7, 6), 3, (3, 2), None, True, x(2, 3, 2, low=0.0, high=0.99))
F.fractional_max_pool3d(x(1, 2, 6, 6, 6), 2, None, (0.5, 0.5, 0.5), True, x(1, 2, 3, low=0.0, high=0.99))
F.gaussian_nll_loss(x(3, 4), x(3, 4), x(3, 4, low=0.1), True, 1e-06, 'mean')
F.gelu(x(3, 4), approximate='tanh')
F.glu(x(3, 4), -1)
F.grid_sample(x(1, 2, 4, 5), x(1, 3, 3, 2, low=-1.2, high=1.2), 'bilinear', 'zeros', False)
F.grid_sample(x(1, 2, 4, 5), x(1, 3, 3, 2, low=-1.2, high=1.2), 'bicubic', 'reflection', True)
F.grid_sample(x(1, 2, 3, 4, 5), x(1, 2, 3, 3, 3, low=-1.2, high=1.2), 'nearest', 'border', False)
F.group_norm(x(2, 6, 4), 3, x(6), x(6), 1e-05)
F.grouped_mm(x(4, 3), x(2, 3, 5), offs=facula.tensor([2, 4], dtype=facula.int32))
F.gumbel_softmax(x(3, 4), 1.0, True, 1e-10, -1)
F.hardshrink(x(3, 4), 0.5)
F.hardsigmoid(x(3, 4), False)
F.hardswish(x(3, 4))
F.hardtanh(x(3, 4), -1.0, 0.5, False)
F.hinge_embedding_loss(x(3, 4), facula.tensor([1.0, -1.0, 1.0, -1.0]), 1.0, reduction='mean')
F.huber_loss(x(3, 4), x(3, 4, low=-1.0), 'mean', 0.7)
F.instance_norm(x(2, 3, 5), x(3), x(3, low=0.5), x(3), x(3), True, 0.1, 1e-05)
F.interpolate(x(1, 2, 5), 7, None, 'linear', True)
F.interpolate(x(1, 2, 4, 5), (6, 3), None, 'bicubic', False, None, False)
F.interpolate(x(1, 2, 4, 5), None, (1.5, 0.7), 'bilinear', False, True, True)
F.interpolate(x(1, 2, 3, 4, 4), (2, 5, 3), None, 'trilinear', False)
F.interpolate(x(1, 2, 4, 5), None, 2.0, 'nearest-exact')
F.interpolate(x(1, 2, 4, 5), (3, 3), None, 'area')
F.kl_div(x(3, 4), x(3, 4, low=0.1), reduction='batchmean', log_target=False)
F.l1_loss(x(3, 4), x(3, 4, low=-1.0), reduction='mean', weight=x(3, 4))
F.layer_norm(x(2, 3, 4), (3, 4), x(3, 4), x(3, 4), 1e-05)
F.leaky_relu(x(3, 4), 0.1, False)
F.linear(x(2, 3, 4), x(5, 4), x(5))
F.linear_cross_entropy(x(3, 4), x(5, 4), k(3), linear_bias=x(5), weight=x(5, low=0.1), reduction='mean', label_smoothing=0.1)
F.local_response_norm(x(2, 6, 4), 3, 0.0001, 0.75, 1.0)
F.log_softmax(x(3, 4), 1, 3, facula.float64)
F.logsigmoid(x(3, 4))
F.lp_pool1d(x(2, 3, 8, low=0.1), 2.0, 3, 2, True)
F.lp_pool2d(x(1, 2, 6, 6, low=0.1), 3.0, 2, None, False)
F.lp_pool3d(x(1, 2, 4, 4, 4, low=0.1), 2.0, 2, 1)
F.margin_ranking_loss(x(4), x(4, low=-1.0), facula.tensor([1.0, -1.0, 1.0, 1.0]), 0.1, reduction='none')
F.max_pool1d(x(2, 3, 8), 3, 2, 1, 1, True, True)
F.max_pool2d(x(1, 2, 6, 7), (3, 2), 2, 1, 1, False, return_indices=True)
F.max_pool3d(x(1, 2, 4, 5, 6), 2, 2, 0, (1, 2, 1), False, True)
F.max_unpool1d(x(2, 3, 4), k(2, 3, 4, below=8), 2, 2, 0, [8])
F.max_unpool2d(x(1, 2, 3, 3), k(1, 2, 3, 3, below=36), 2, 2, 0, (6, 6))
F.max_unpool3d(x(1, 2, 2, 2, 2), k(1, 2, 2, 2, 2, below=64), 2, 2)
F.mish(x(3, 4))
F.mse_loss(x(3, 4), x(3, 4, low=-1.0), reduction='sum')
F.multi_head_attention_forward(x(3, 2, 4), x(5, 2, 4), x(5, 2, 4), 4, 2, x(12, 4), x(12), None, None, False, 0.0, x(4, 4), x(4), True, None, True, None)
F.multi_head_attention_forward(x(3, 2, 4), x(5, 2, 4), x(5, 2, 4), 4, 2, x(12, 4), x(12), x(1, 1, 4), x(1, 1, 4), True, 0.0, x(4, 4), x(4), attn_mask=x(3, 5), key_padding_mask=k(2, 5).bool())
F.multi_margin_loss(x(3, 5), k(3), 2, 1.0, x(5), reduction='mean')
F.multilabel_margin_loss(x(3, 4), facula.tensor([[1, 0, -1, 2], [3, -1, 0, 0], [0, 1, 2, 3]]), reduction='none')
F.multilabel_soft_margin_loss(x(3, 4), k(3, 4, below=2).float(), x(4), reduction='mean')
F.nll_loss(x(3, 5), k(3), x(5), ignore_index=1, reduction='mean')
F.nll_loss(x(2, 3, 4, 4), k(2, 4, 4), None, reduction='none')
F.normalize(x(3, 4), 2.0, 1, 1e-12)
F.one_hot(k(2, 3), 4)
F.pad(x(1, 2, 4, 5), (1, -2, 2, 0), 'constant', 1.5)
F.pad(x(1, 2, 4, 5), (1, 2, 2, 1), 'reflect')
F.pad(x(1, 2, 5), (3, 2), 'circular')
F.pad(x(1, 2, 3, 4, 5), (1, 2, 2, 1, 1, 0), 'replicate')
F.pairwise_distance(x(3, 4), x(3, 4, low=-1.0), 2.0, 1e-06, True)
F.pdist(x(5, 3), 2.0)
F.pixel_shuffle(x(1, 8, 2, 3), 2)
F.pixel_unshuffle(x(1, 2, 4, 6), 2)
F.poisson_nll_loss(x(3, 4), x(3, 4, low=0.1), True, True, eps=1e-08, reduction='mean')
F.prelu(x(2, 3, 4), x(3))
F.relu(x(3, 4), False)
F.relu6(x(3, 4))
F.rms_norm(x(2, 3, 4), (4,), x(4), 1e-05)
F.rrelu(x(3, 4), 0.1, 0.1, True)
F.scaled_dot_product_attention(x(2, 2, 3, 4), x(2, 2, 5, 4), x(2, 2, 5, 6), x(3, 5), 0.0, False, scale=0.5)
F.scaled_dot_product_attention(x(2, 4, 3, 4), x(2, 2, 3, 4), x(2, 2, 3, 4), None, 0.0, True, enable_gqa=True)
F.selu(x(3, 4))
F.silu(x(3, 4))
F.smooth_l1_loss(x(3, 4), x(3, 4, low=-1.0), reduction='mean', beta=0.5)
F.soft_margin_loss(x(3, 4), facula.ones(3, 4), reduction='mean')
F.softmax(x(3, 4), 1)
F.softmin(x(3, 4), 0)
F.softplus(x(3, 4), 2, 20)
F.softshrink(x(3, 4), 0.5)
F.softsign(x(3, 4))
F.tanhshrink(x(3, 4))
F.threshold(x(3, 4), 0.1, 20.0, False)
F.triplet_margin_loss(x(3, 4), x(3, 4, low=-1.0), x(3, 4, high=1.0), 1.0, 2, 1e-06, True, reduction='mean')
F.triplet_margin_with_distance_loss(x(3, 4), x(3, 4, low=-1.0), x(3, 4, high=1.0), margin=1.0, swap=True, reduction='none')
F.unfold(x(1, 2, 4, 5), (2, 3), 1, 1, 1)
F.upsample(x(1, 2, 4, 5), None, 2, 'nearest')
F.upsample_bilinear(x(1, 2, 4, 5), (6, 6))
F.upsample_nearest(x(1, 2, 4, 5), None, 2)
"""

MODULES = """
nn.AdaptiveAvgPool1d(3)(x(2, 3, 8))
nn.AdaptiveAvgPool2d((2, 3))(x(1, 2, 5, 6))
nn.AdaptiveAvgPool3d(2)(x(1, 2, 4, 5, 6))
nn.AdaptiveMaxPool1d(3, True)(x(2, 3, 8))
nn.AdaptiveMaxPool2d(2, True)(x(1, 2, 5, 6))
nn.AdaptiveMaxPool3d(2)(x(1, 2, 4, 5, 6))
nn.AdaptiveLogSoftmaxWithLoss(4, 10, [2, 5], 2.0, True)(x(3, 4), k(3, below=10))
nn.AlphaDropout(0.0)(x(3, 4))
nn.AvgPool1d(3, 2, 1, True, False)(x(2, 3, 8))
nn.AvgPool2d(3, 2, 1, True, False, 4)(x(1, 2, 6, 6))
nn.AvgPool3d(2)(x(1, 2, 4, 4, 4))
nn.BCELoss(None, reduction='mean')(x(3, 4, low=0.1, high=0.9), x(3, 4, low=0.0, high=1.0))
nn.BCEWithLogitsLoss(None, pos_weight=x(4))(x(3, 4), x(3, 4, low=0.0, high=1.0))
nn.BatchNorm1d(3, 1e-05, 0.1, True, True)(x(4, 3, 5))
nn.BatchNorm2d(3, 1e-05, None, False, False)(x(2, 3, 4, 4))
nn.BatchNorm3d(2)(x(2, 2, 3, 3, 3))
nn.Bilinear(3, 5, 2)(x(4, 3), x(4, 5))
nn.CELU(0.5)(x(3, 4))
nn.CTCLoss(0, 'mean', True)(x(6, 2, 4).log_softmax(-1), k(2, 3) + 1, facula.tensor([6, 5]), facula.tensor([3, 2]))
nn.ChannelShuffle(3)(x(1, 6, 2, 2))
nn.CircularPad1d((1, 2))(x(1, 2, 5))
nn.CircularPad2d(1)(x(1, 2, 4, 5))
nn.CircularPad3d(1)(x(1, 2, 3, 4, 5))
nn.ConstantPad1d((1, -1), 1.5)(x(1, 2, 5))
nn.ConstantPad2d(2, 1.5)(x(1, 2, 4, 5))
nn.ConstantPad3d(1, 0.5)(x(1, 2, 3, 4, 5))
nn.Conv1d(4, 6, 3, 2, 1, 1, 2, True, 'circular')(x(2, 4, 9))
nn.Conv2d(3, 4, (3, 2), 1, 'same', 1, 1, False, 'reflect')(x(2, 3, 6, 7))
nn.Conv3d(2, 3, 2, 1, 1, 1, 1)(x(1, 2, 4, 4, 4))
nn.ConvTranspose1d(4, 6, 3, 2, 1, 1, 2)(x(2, 4, 5), [10])
nn.ConvTranspose2d(4, 2, 3, 2, 1, 1)(x(1, 4, 4, 5))
nn.ConvTranspose3d(2, 3, 2, 2)(x(1, 2, 3, 3, 3), (6, 7, 7))
nn.CosineEmbeddingLoss(0.1)(x(3, 4), x(3, 4, low=-1.0), facula.tensor([1, -1, 1]))
nn.CosineSimilarity(1, 1e-08)(x(3, 4), x(3, 4, low=-1.0))
nn.CrossEntropyLoss(x(5, low=0.1), ignore_index=2, reduction='mean', label_smoothing=0.1)(x(3, 5), k(3))
nn.CrossMapLRN2d(3, 0.0001, 0.75, 1)(x(1, 4, 3, 3))
nn.Dropout(0.0)(x(3, 4))
nn.Dropout1d(0.0)(x(2, 3, 4))
nn.Dropout2d(0.0)(x(2, 3, 4, 4))
nn.Dropout3d(0.0)(x(2, 3, 4, 2, 2))
nn.ELU(1.0)(x(3, 4))
nn.Embedding(5, 3, 1, 1.0, 2.0, True)(k(2, 4))
nn.Embedding.from_pretrained(x(5, 3), False, 1)(k(2, 4))
nn.EmbeddingBag(5, 3, 1.0, 2.0, False, 'sum')(k(6), facula.tensor([0, 2, 5]), x(6))
nn.EmbeddingBag(5, 3, mode='max', include_last_offset=True)(k(6), facula.tensor([0, 2, 6]))
nn.FeatureAlphaDropout(0.0)(x(2, 3, 4))
nn.Flatten(1, -1)(x(2, 3, 4))
nn.Fold((3, 4), 2)(x(2, 12, 6))
nn.FractionalMaxPool2d(3, (3, 2), _random_samples=x(2, 3, 2, low=0.0, high=0.99))(x(2, 3, 7, 6))
nn.FractionalMaxPool3d(2, output_ratio=0.5, return_indices=True)(x(1, 2, 6, 6, 6))
nn.GELU('tanh')(x(3, 4))
nn.GLU(1)(x(3, 4))
nn.GRU(3, 4, 2, True, True, 0.0, True)(x(2, 5, 3), x(4, 2, 4))
nn.GRUCell(3, 4)(x(2, 3), x(2, 4))
nn.GaussianNLLLoss(full=True, eps=1e-06)(x(3, 4), x(3, 4), x(3, 4, low=0.1))
nn.GroupNorm(3, 6)(x(2, 6, 4))
nn.Hardshrink(0.5)(x(3, 4))
nn.Hardsigmoid()(x(3, 4))
nn.Hardswish()(x(3, 4))
nn.Hardtanh(-1.0, 0.5)(x(3, 4))
nn.HingeEmbeddingLoss(1.0)(x(3, 4), facula.ones(3, 4))
nn.HuberLoss('mean', 0.7)(x(3, 4), x(3, 4, low=-1.0))
nn.Identity(3)(x(3, 4))
nn.InstanceNorm1d(3, 1e-05, 0.1, True, True)(x(2, 3, 5))
nn.InstanceNorm2d(3)(x(2, 3, 4, 4))
nn.InstanceNorm3d(2)(x(2, 2, 3, 3, 3))
nn.KLDivLoss(reduction='batchmean', log_target=True)(x(3, 4), x(3, 4))
nn.L1Loss()(x(3, 4), x(3, 4, low=-1.0))
nn.LPPool1d(2.0, 3, 2, True)(x(2, 3, 8, low=0.1))
nn.LPPool2d(2.0, 2)(x(1, 2, 6, 6, low=0.1))
nn.LPPool3d(2.0, 2)(x(1, 2, 4, 4, 4, low=0.1))
nn.LSTM(3, 4, 2, True, False, 0.0, True, 2)(x(5, 2, 3), (x(4, 2, 2), x(4, 2, 4)))
nn.LSTM(3, 4, batch_first=True)(x(2, 5, 3))
nn.LSTMCell(3, 4)(x(2, 3), (x(2, 4), x(2, 4)))
nn.LayerNorm((3, 4), 1e-05, True)(x(2, 3, 4))
nn.LazyBatchNorm1d()(x(4, 3, 5))
nn.LazyConv2d(4, 3)(x(1, 3, 5, 5))
nn.LazyConvTranspose1d(4, 3)(x(1, 3, 5))
nn.LazyLinear(4)(x(2, 3))
nn.LeakyReLU(0.1)(x(3, 4))
nn.Linear(4, 5, True)(x(2, 3, 4))
nn.LinearCrossEntropyLoss(4, 5, label_smoothing=0.1)(x(3, 4), k(3))
nn.LocalResponseNorm(3, 0.0001, 0.75, 1.0)(x(2, 6, 4))
nn.LogSigmoid()(x(3, 4))
nn.LogSoftmax(1)(x(3, 4))
nn.MSELoss(reduction='sum')(x(3, 4), x(3, 4, low=-1.0))
nn.MarginRankingLoss(0.1)(x(4), x(4, low=-1.0), facula.ones(4))
nn.MaxPool1d(3, 2, 1, 1, True, True)(x(2, 3, 8))
nn.MaxPool2d((3, 2), 2, 1, 1, True)(x(1, 2, 6, 7))
nn.MaxPool3d(2, 2, 0, 1)(x(1, 2, 4, 5, 6))
nn.MaxUnpool1d(2, 2, 0)(x(2, 3, 4), k(2, 3, 4, below=8), [8])
nn.MaxUnpool2d(2)(x(1, 2, 3, 3), k(1, 2, 3, 3, below=36))
nn.MaxUnpool3d(2)(x(1, 2, 2, 2, 2), k(1, 2, 2, 2, 2, below=64))
nn.Mish()(x(3, 4))
nn.MultiLabelMarginLoss()(x(3, 4), facula.tensor([[1, 0, -1, 2], [3, -1, 0, 0], [0, 1, 2, 3]]))
nn.MultiLabelSoftMarginLoss(x(4))(x(3, 4), k(3, 4, below=2).float())
nn.MultiMarginLoss(2, 1.0, x(5))(x(3, 5), k(3))
nn.MultiheadAttention(4, 2, 0.0, True, True, True, batch_first=True)(x(2, 3, 4), x(2, 5, 4), x(2, 5, 4), need_weights=True)
nn.MultiheadAttention(4, 2, kdim=3, vdim=5)(x(3, 2, 4), x(5, 2, 3), x(5, 2, 5), attn_mask=k(3, 5).bool())
nn.NLLLoss(x(5), ignore_index=1)(x(3, 5), k(3))
nn.PReLU(3, 0.25)(x(2, 3, 4))
nn.PairwiseDistance(2.0, 1e-06, True)(x(3, 4), x(3, 4, low=-1.0))
nn.PixelShuffle(2)(x(1, 8, 2, 3))
nn.PixelUnshuffle(2)(x(1, 2, 4, 6))
nn.PoissonNLLLoss(False, True)(x(3, 4, low=0.1), x(3, 4, low=0.1))
nn.RMSNorm((4,), 1e-05)(x(2, 3, 4))
nn.RNN(3, 4, 1, 'relu', True, True, 0.0, True)(x(2, 5, 3))
nn.RNNCell(3, 4, True, 'tanh')(x(2, 3), x(2, 4))
nn.RReLU(0.1, 0.1)(x(3, 4))
nn.ReLU(False)(x(3, 4))
nn.ReLU6()(x(3, 4))
nn.ReflectionPad1d((1, 2))(x(1, 2, 5))
nn.ReflectionPad2d(1)(x(1, 2, 4, 5))
nn.ReflectionPad3d(1)(x(1, 2, 3, 4, 5))
nn.ReplicationPad1d((1, 2))(x(1, 2, 5))
nn.ReplicationPad2d(1)(x(1, 2, 4, 5))
nn.ReplicationPad3d(1)(x(1, 2, 3, 4, 5))
nn.SELU()(x(3, 4))
nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))(x(3, 4))
nn.SiLU()(x(3, 4))
nn.Sigmoid()(x(3, 4))
nn.SmoothL1Loss(reduction='mean', beta=0.5)(x(3, 4), x(3, 4, low=-1.0))
nn.SoftMarginLoss()(x(3, 4), facula.ones(3, 4))
nn.Softmax(1)(x(3, 4))
nn.Softmax2d()(x(2, 3, 4, 4))
nn.Softmin(1)(x(3, 4))
nn.Softplus(1.0, 20.0)(x(3, 4))
nn.Softshrink(0.5)(x(3, 4))
nn.Softsign()(x(3, 4))
nn.Tanh()(x(3, 4))
nn.Tanhshrink()(x(3, 4))
nn.Threshold(0.1, 20.0)(x(3, 4))
nn.Transformer(4, 2, 1, 1, 8, 0.0)(x(3, 2, 4), x(5, 2, 4))
nn.TransformerDecoderLayer(4, 2, 8, 0.0)(x(3, 2, 4), x(5, 2, 4), tgt_is_causal=False)
nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True, norm_first=True)(x(2, 3, 4), src_mask=x(3, 3))
nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0), 2)(x(3, 2, 4), is_causal=False)
nn.TripletMarginLoss(1.0, 2.0, 1e-06, True)(x(3, 4), x(3, 4, low=-1.0), x(3, 4, high=1.0))
nn.TripletMarginWithDistanceLoss(margin=1.0, swap=True)(x(3, 4), x(3, 4, low=-1.0), x(3, 4, high=1.0))
nn.Unflatten(1, (2, 2))(x(3, 4))
nn.Unfold(2, 1, 1, 1)(x(1, 2, 4, 5))
nn.Upsample((6, 3), None, 'bicubic', False)(x(1, 2, 4, 5))
nn.Upsample(scale_factor=1.5, mode='linear', recompute_scale_factor=True)(x(1, 2, 5))
nn.UpsamplingBilinear2d((6, 6))(x(1, 2, 4, 5))
nn.UpsamplingNearest2d(scale_factor=2)(x(1, 2, 4, 5))
nn.ZeroPad1d((1, 2))(x(1, 2, 5))
nn.ZeroPad2d((1, -1, 2, 0))(x(1, 2, 4, 5))
nn.ZeroPad3d(1)(x(1, 2, 3, 4, 5))
"""

OTHERS = """
step(optim.ASGD, [x(3, 4)], [x(3, 4)], lr=0.01, lambd=0.0001, alpha=0.75, t0=1000000.0, weight_decay=0.1)
step(optim.Adadelta, [x(3, 4)], [x(3, 4)], lr=1.0, rho=0.9, eps=1e-06, weight_decay=0.1)
step(optim.Adafactor, [x(3, 4)], [x(3, 4)], lr=0.01, beta2_decay=-0.8, eps=(None, 0.001), d=1.0, weight_decay=0.1)
step(optim.Adagrad, [x(3, 4)], [x(3, 4)], lr=0.01, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.1, eps=1e-10)
step(optim.Adam, [x(3, 4), x(2)], [x(3, 4), x(2)], lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.1, amsgrad=True)
step(optim.AdamW, [x(3, 4), x(2)], [x(3, 4), x(2)], lr=0.001, betas=(0.9, 0.999), eps=1e-08, maximize=True, foreach=None)
step(optim.Adamax, [x(3, 4)], [x(3, 4)], lr=0.002, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.1)
step(optim.LBFGS, [x(3, 4)], [x(3, 4)], lr=1, max_iter=3, max_eval=None, history_size=5, line_search_fn='strong_wolfe')
step(optim.Muon, [x(3, 4)], [x(3, 4)], lr=0.001, weight_decay=0.1, momentum=0.95, nesterov=True, ns_steps=5)
step(optim.NAdam, [x(3, 4)], [x(3, 4)], lr=0.002, betas=(0.9, 0.999), eps=1e-08, momentum_decay=0.004)
step(optim.RAdam, [x(3, 4)], [x(3, 4)], lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.1)
step(optim.RMSprop, [x(3, 4)], [x(3, 4)], lr=0.01, alpha=0.99, eps=1e-08, momentum=0.9, centered=True)
step(optim.Rprop, [x(3, 4)], [x(3, 4)], lr=0.01, etas=(0.5, 1.2), step_sizes=(1e-06, 50))
step(optim.SGD, [x(3, 4), x(2)], [x(3, 4), x(2)], lr=0.001, momentum=0.9, dampening=0.1, weight_decay=0.1, maximize=True)
step(optim.SGD, [x(3, 4)], [x(3, 4)], lr=0.001, momentum=0.9, nesterov=True)
x(3, 4, 5)[1]
x(3, 4, 5)[1:3, ::2]
x(3, 4, 5)[..., None, -1]
x(3, 4, 5)[k(2, 2)]
x(3, 4, 5)[k(2), :, k(2)]
x(3, 4, 5)[x(3, 4) > 0]
x(3, 4, 5)[[0, 2], 1]
x(3, 4, 5).__setitem__((1, slice(0, 2)), 5.0)
x(3, 4, 5).__setitem__((k(2), slice(None), k(2)), x(2, 4))
x(3, 4, 5).__setitem__(x(3, 4, 5) > 0, 1.5)
x(3, 4).__setitem__(k(2), x(2, 4))
x(3, 4).index_put_((k(5), k(5)), x(5), True)
facula.autograd.grad((x(3).requires_grad_() ** 2).sum(), x(3), allow_unused=True)
facula.autograd.backward([x(3).requires_grad_() * 2], [x(3)], retain_graph=True)
facula.einsum('bij,bjk->bik', x(2, 3, 4), x(2, 4, 5))
facula.einsum(x(3, 4), [0, 1], x(4, 5), [1, 2], [0, 2])
facula.tensordot(x(2, 3, 4), x(3, 4, 5), 2)
facula.tensordot(x(2, 3, 4), x(4, 3, 5), dims=([1, 2], [1, 0]))
facula.stft(x(64), 16, 4, 16, facula.hann_window(16), True, 'reflect', False, True, return_complex=True)
facula.istft(facula.stft(x(64), 16, 4, 16, facula.hann_window(16), return_complex=True), 16, 4, 16, facula.hann_window(16), length=60)
facula.unique(k(3, 4), True, True, True, 0)
facula.unique_consecutive(k(12), return_inverse=True, return_counts=True)
facula.histogramdd(x(10, 2), [3, 4], range=[-2.0, 2.0, -2.0, 2.0], weight=x(10), density=True)
facula.gradient(x(4, 5), spacing=2.0, dim=(0, 1), edge_order=2)
facula.lobpcg(x(6, 6) @ x(6, 6).mT, 1, niter=3)
facula.svd_lowrank(x(5, 4), 2, 2)
facula.pca_lowrank(x(5, 4), 2)
facula.segment_reduce(x(6, 2), 'sum', lengths=facula.tensor([2, 3, 1]), axis=0, unsafe=False, initial=0.0)
facula.chain_matmul(x(3, 4), x(4, 5), x(5, 2))
facula.broadcast_shapes((3, 1), (1, 4))
facula.asarray([[1, 2], [3, 4]], dtype=facula.float32, copy=True)
facula.frombuffer(bytearray(24), dtype=facula.float32, count=4, offset=8)
facula.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=facula.float64, device='cpu', requires_grad=True)
facula.as_tensor([1, 2], dtype=facula.int8)
facula.from_numpy(np.ones((3, 4)))
facula.Tensor(3, 4)
facula.LongTensor([1, 2])
facula.Size([3, 4])
facula.FloatStorage(4)
facula.UntypedStorage(16)
facula.promote_types(facula.float32, facula.int64)
facula.result_type(x(3), 1j)
facula.Generator().manual_seed(3)
facula.quantile(x(3, 4), facula.tensor([0.1, 0.5]), 1, True, interpolation='linear')
facula.lu(x(3, 3), True, True)
facula.norm(x(3, 4), 'fro', (0, 1), True)
facula.norm(x(3, 4), 3, 1, False, dtype=facula.float64)
facula.nn.init.kaiming_uniform_(x(4, 3, 2), 0.1, 'fan_out', 'leaky_relu')
facula.nn.init.orthogonal_(x(4, 3), 1.5)
facula.nn.init.trunc_normal_(x(4, 3), 0.0, 1.0, -2.0, 2.0)
facula.nn.init.sparse_(x(4, 3), 0.5, 0.01)
facula.nn.init.dirac_(x(4, 2, 3), 2)
facula.nn.utils.clip_grad_norm_([x(3)], 1.0, 2.0, False)
facula.nn.utils.parameters_to_vector([x(3), x(2, 2)])
facula.nn.utils.rnn.pad_sequence([x(3, 2), x(2, 2)], True, 0.5)
facula.nn.utils.rnn.pack_padded_sequence(x(5, 2, 3), [5, 3], False, True)
facula.nn.utils.rnn.pad_packed_sequence(nn.utils.rnn.pack_padded_sequence(x(5, 2, 3), [5, 3]), True, 0.5, 6)
facula.nn.utils.rnn.pack_sequence([x(3, 2), x(2, 2)], True)
facula.nn.grad.conv2d_input((1, 3, 6, 6), x(4, 3, 3, 3), x(1, 4, 4, 4), 1, 0, 1, 1)
facula.nn.grad.conv2d_weight(x(1, 3, 6, 6), (4, 3, 3, 3), x(1, 4, 4, 4), 1, 0, 1, 1)
facula.signal.windows.kaiser(8, beta=12.0, sym=True)
facula.signal.windows.general_cosine(8, a=[0.5, 0.3, 0.2])
facula.masked.sum(x(3, 4), 1, True, mask=k(3, 4, below=2).bool())
facula.func.vmap(lambda a, b: a * b, (0, None), 1)(x(3, 4), x(4))
facula.func.vmap(facula.linalg.solve)(x(2, 3, 3), x(2, 3, 1))
facula.func.grad(lambda a: (a ** 2).sum())(x(3, 4))
facula.func.jacrev(facula.softmax)(x(3), 0)
facula.func.jvp(facula.sin, (x(3),), (x(3),))
facula.func.hessian(lambda a: (a ** 3).sum())(x(3))
x(3, 4).numpy()
x(3, 4).tolist()
x(1).item()
x(3, 4).set_(x(12), 0, (3, 4), (4, 1))
x(3, 4).set_(x(12).untyped_storage(), 2, (3, 2), (2, 1))
x(3, 4).untyped_storage().resize_(100)
x(3, 4).untyped_storage()[3]
x(3, 4).storage().fill_(2.0)
x(3, 4).data_ptr()
x(3, 4).__dlpack__()
facula.from_dlpack(x(3, 4))
x(3, 4).to(facula.float64, non_blocking=True, copy=True)
x(3, 4).type(facula.float64)
x(3, 4).new_tensor([1, 2])
x(3, 4).map_(x(3, 4), lambda a, b: a + b)
x(3, 4).apply_(lambda a: a + 1)
x(3, 4).register_hook(lambda g: g)
x(3, 4).stride(0)
x(3, 4).size(1)
x(3, 4).view(facula.int32)
x(3, 4).unflatten(1, (2, 2))
x(3, 4).__format__('.3f')
x(3, 4).__contains__(1.0)
x(3, 4).__array__(np.float64)
copy.deepcopy(x(3, 4))
pickle.loads(pickle.dumps(x(3, 4)))
list(x(3, 4))
len(x(3, 4))
x(3, 4) @ x(4, 5)
x(3, 4) ** x(3, 4)
x(3, 4) // x(3, 4)
2 ** x(3, 4)
k(3, 4) << 2
k(3, 4) % k(3, 4)
~k(3, 4)
"""

# What keeps the process from being the next case's, or has no end by nature.
EXCLUDED = {
    "save", "load", "from_file", "compile", "while_loop", "cond", "set_num_threads", "set_num_interop_threads", "share_memory_",
    "set_default_dtype", "set_default_device", "set_default_tensor_type", "set_printoptions", "set_warn_always", "seed",
    "use_deterministic_algorithms", "set_deterministic_debug_mode", "set_flush_denormal", "set_rng_state", "exit", "ipc_collect",
    "set_autocast_enabled", "set_autocast_cpu_enabled", "set_autocast_dtype", "set_autocast_cpu_dtype", "set_autocast_gpu_dtype",
    "set_autocast_cache_enabled", "autocast_increment_nesting", "autocast_decrement_nesting", "set_autocast_ipu_dtype",
    "set_autocast_ipu_enabled", "set_autocast_xla_dtype", "set_autocast_xla_enabled", "set_float32_matmul_precision",
    "_change_override_disabled", "_install_methods", "load_library", "main", "spawn", "init_process_group",
}  # fmt: skip


def excluded(text: str) -> bool:
    return any(word in EXCLUDED for word in _words(text))


def _words(text: str):
    return "".join(c if c.isalnum() or c == "_" else " " for c in text).split()


# --- texts to seeds -------------------------------------------------------------------------------------------------

MAKERS = {"x", "k", "ones", "zeros", "tensor", "arange", "rand", "randn", "linspace", "full", "eye", "empty", "dtype", "device"}


def seed_of(text: str, types: dict | None = None, keywords=(), op=None) -> Seed | None:
    """The seed of a call; `types` gives the schema's types of the outermost call's arguments, by position or name."""
    tree = ast.parse(text, mode="eval").body
    ascii_only = text.isascii()
    if not ascii_only:
        return None
    holes, seen = [], set()

    def visit(node, outermost):
        for child in [getattr(node, "func", None), getattr(node, "value", None), getattr(node, "left", None)]:
            if isinstance(child, (ast.Call, ast.Attribute, ast.Subscript)):
                if isinstance(child, ast.Call) and not isinstance(node, ast.Call):
                    add(child, None)
                visit(child, isinstance(node, ast.Call) and outermost)
        if not isinstance(node, ast.Call):
            if isinstance(node, ast.BinOp):
                add(node.left, None), add(node.right, None)
            if isinstance(node, ast.Subscript):
                add(node.slice, "index")
            return
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in MAKERS and not outermost:
            return
        for place, arg in enumerate(node.args):
            add(arg, (types or {}).get(place) if node is tree else None)
            if called != "step" and isinstance(arg, ast.Call):
                visit(arg, False)
        for keyword in node.keywords:
            add(keyword.value, (types or {}).get(keyword.arg) if node is tree else None)

    def add(node, kind):
        span = (node.col_offset, node.end_col_offset)
        if span in seen or isinstance(node, (ast.Starred, ast.Slice)):
            return
        seen.add(span)
        holes.append(Hole(*span, kind or kind_of(node), isinstance(node, (ast.BinOp, ast.UnaryOp))))

    visit(tree, True)
    insert = len(text) - 1 if isinstance(tree, ast.Call) else -1
    return Seed(text, tuple(holes), insert, tuple(keywords), op)


def kind_of(node) -> str:
    """The type that an argument's text shows."""
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    if isinstance(node, ast.Constant):
        names = {bool: "bool", int: "int", float: "float", complex: "Scalar", str: "str", type(None): "any"}
        return names.get(type(node.value), "any")
    if isinstance(node, (ast.Tuple, ast.List)):
        inner = {kind_of(item) for item in node.elts}
        return {"int": "int[]", "float": "float[]", "Tensor": "Tensor[]"}.get(inner.pop() if len(inner) == 1 else "", "int[]")
    if isinstance(node, ast.Attribute):
        return "dtype"
    return "Tensor" if isinstance(node, (ast.Call, ast.BinOp, ast.Subscript)) else "any"


def public_names(op) -> list[str]:
    """The op's names, as texts that reach its binding."""
    modules = {"": "facula._C.", "nn.functional": "facula._C.nn_functional."}
    if not op.names:
        return [f"facula._C._ops.{op.name}"]
    return [modules.get(module, f"facula._C.{module}.") + last for module, _, last in (n.rpartition(".") for n in op.names)]


def _plain(kind: str) -> str:
    return kind.rstrip("?")


def schema_seeds() -> list[Seed]:
    """The samples of every op of ops/*.yaml, as function, method and in-place form."""
    found = []
    for op in op_samples.all_ops():
        if excluded(op.name) or (op.samples is None and not op.elementwise):
            continue
        for entry in op_samples._argument_maps(op, op_samples.ELEMENTWISE_SHAPES[:1]):
            found += [s for s in _forms_of(op, entry) if s is not None]
    return found


def _forms_of(op, entry):
    dtype = None if "Float32" in op.dtypes else "int64" if "Int64" in op.dtypes else "complex64"
    given = {a.name: _sample_text(a, entry[a.name], dtype) for a in op.args if a.name in entry}
    keyword, parts, types = False, [], {}
    for arg in op.args:
        if arg.name not in entry:
            if arg.default is None and arg.type.endswith("?") and not keyword:
                parts.append("None")
                types[len(parts) - 1] = _plain(arg.type)
            else:
                keyword = True
            continue
        text = given[arg.name]
        public = "input" if arg.name == "self" else arg.name
        if keyword or arg.keyword_only:
            keyword = True
            parts.append(f"{public}={text}")
            types[public] = _plain(arg.type)
        else:
            parts.append(text)
            types[len(parts) - 1] = _plain(arg.type)
    missing = [("input" if a.name == "self" else a.name, _plain(a.type)) for a in op.args if a.name not in entry and not iskeyword(a.name)]
    if "out" in op.variants:
        missing.append(("out", "out" if op.tensor_returns == 1 else "out[]"))
    inner = ", ".join(parts)
    if not op.names or "function" in op.variants:
        yield seed_of(f"{public_names(op)[0]}({inner})", types, missing, op)
    first = next((a for a in op.args if a.name in entry), None)
    if first is not None and first.type == "Tensor" and parts and "=" not in parts[0].split("(")[0]:
        # with the tensor in front, the types of the others move up by one
        moved = {p - 1 if isinstance(p, int) else p: t for p, t in types.items() if p != 0}
        name = next((n for n in op.names if "." not in n), op.name)
        if "method" in op.variants and "." not in name:
            yield seed_of(f"{parts[0]}.{name}({', '.join(parts[1:])})", moved, missing[:-1], op)
        if "inplace" in op.variants and hasattr(facula.Tensor, name + "_"):
            yield seed_of(f"{parts[0]}.{name}_({', '.join(parts[1:])})", moved, (), op)


def _sample_text(arg, given, dtype) -> str:
    if given is None or given == "None":
        return "None"
    if _plain(arg.type) in ("Tensor", "Operand"):
        if isinstance(given, (int, float, complex)) and not isinstance(given, bool):
            return repr(given)
        return _tensor_text(given, dtype)
    if arg.type == "Tensor[]":
        return "[" + ", ".join(_tensor_text(item, dtype) for item in given) + "]"
    if arg.type.startswith("dtype"):
        return f"facula.{given}"
    return repr(given.strip("'\"") if isinstance(given, str) else given)


def _tensor_text(given, dtype=None) -> str:
    entry = given if isinstance(given, dict) else {"shape": given}
    dtype = entry.get("dtype", dtype)
    if "values" in entry:
        return f"facula.tensor({entry['values']!r}, dtype=facula.{dtype or 'float32'})"
    low, high = entry.get("range", op_samples.DEFAULT_RANGE)
    shape = ", ".join(map(str, entry["shape"]))
    options = "" if (low, high) == op_samples.DEFAULT_RANGE else f"low={low!r}, high={high!r}"
    if dtype is not None:
        options += f"{', ' if options else ''}dtype=facula.{dtype}"
    return f"x({shape}{', ' if shape and options else ''}{options})"


def table_seeds(*tables: str) -> list[Seed]:
    return [seed_of(line) for table in tables for line in table.strip().splitlines()]


HARVESTED_NAMES = {"facula", "torch", "F", "nn", "optim", "np", "math", "inf", "nan", "float", "int", "complex", "bool", "range", "slice",
                   "list", "tuple", "dict", "len"}  # fmt: skip


def harvested_seeds() -> list[Seed]:
    """Calls in the tests that name nothing but the library."""
    found = {}
    for path in sorted(TESTS.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            inside = list(ast.walk(node))
            names = {n.id for n in inside if isinstance(n, ast.Name)}
            if not names <= HARVESTED_NAMES or not names & {"facula", "torch", "F", "nn", "optim"}:
                continue
            if any(isinstance(n, (ast.Lambda, ast.NamedExpr, ast.comprehension)) for n in inside):
                continue
            text = ast.unparse(node)
            if text.startswith(("np.", "math.")) or "detach().numpy()." in text or "np.random." in text:  # others' functions
                continue
            if len(text) < 300 and "\n" not in text and not excluded(text):
                found[text] = None
    return [seed for text in found if (seed := seed_of(text)) is not None]


@functools.cache
def signatures() -> list[tuple[str, list[tuple[str, str, bool]], bool]]:
    """Everything public that can be called: (text, [(name, type, keyword only)], whether a tensor comes first)."""
    found = []
    for op in op_samples.all_ops():
        if excluded(op.name):
            continue
        args = [("input" if a.name == "self" else a.name, _plain(a.type), a.keyword_only) for a in op.args if not iskeyword(a.name)]
        out = [("out", "out" if op.tensor_returns == 1 else "out[]", True)] if "out" in op.variants else []
        if not op.names or "function" in op.variants:
            found += [(name, args + out, False) for name in public_names(op)]
        if "method" in op.variants and args and args[0][1] in ("Tensor", "Operand"):
            name = next((n for n in op.names if "." not in n), op.name)
            found.append((name, args[1:], True))
            if "inplace" in op.variants:
                found.append((name + "_", args[1:], True))
    known = {text.rpartition(".")[2] for text, _, _ in found}
    homes = [("facula", facula), ("facula.linalg", facula.linalg), ("facula.fft", facula.fft), ("facula.special", facula.special),
             ("F", nn.functional), ("nn", nn), ("nn.init", nn.init), ("nn.utils", nn.utils), ("optim", optim)]  # fmt: skip
    for home, module in homes:
        for name in sorted(vars(module)):
            if name.startswith("_") or excluded(name) or (name in known and home != "F"):
                continue
            value = getattr(module, name)
            if callable(value) and not inspect.ismodule(value) and not (home == "F" and isinstance(value, type)):
                found.append((f"{home}.{name}", _inspected(value), False))
    for name in sorted(dir(facula.Tensor)):
        value = getattr(facula.Tensor, name, None)
        if name in known or excluded(name) or not callable(value) or name in ("__class__", "__init_subclass__", "__subclasshook__", "__new__"):
            continue
        if not name.startswith("_") or name.startswith("__"):
            found.append((name, _inspected(value)[1:] if inspect.isfunction(value) else [], True))
    return found


NAMED_TYPES = {
    **dict.fromkeys(("input", "target", "weight", "bias", "x1", "x2", "grid", "theta", "indices", "index", "query", "key", "value"), "Tensor"),
    **dict.fromkeys(("kernel_size", "stride", "padding", "dilation", "output_size", "size", "normalized_shape", "shape"), "int[]"),
    **dict.fromkeys(("dim", "groups", "n", "num_classes", "in_features", "out_features", "in_channels", "out_channels"), "int"),
    **dict.fromkeys(("params", "parameters", "tensors", "sequences"), "Tensor[]"),
    **dict.fromkeys(("reduction", "mode", "padding_mode"), "str"), "dtype": "dtype", "device": "device", "generator": "Generator",
    "out": "out",
}  # fmt: skip
DEFAULT_TYPES = {bool: "bool", int: "int", float: "float", str: "str", tuple: "int[]", list: "int[]"}


def _inspected(value) -> list[tuple[str, str, bool]]:
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return []
    found = []
    for p in parameters:
        if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) or p.name in ("size_average", "reduce"):
            continue
        annotation = str(p.annotation)
        kind = NAMED_TYPES.get(p.name) or next((t for t in ("int", "float", "bool", "str") if annotation.startswith(t)), None)
        kind = kind or DEFAULT_TYPES.get(type(p.default), "Tensor" if p.default is p.empty else "any")
        found.append((p.name, kind, p.kind == p.KEYWORD_ONLY))
    return found
