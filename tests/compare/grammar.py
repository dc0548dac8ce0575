"""Random small programs: the statements that they are made of, and how one is written.

A program makes a few tensors and then applies statements to them. A statement is a template of Python text with slots:

| slot | what stands there |
|---|---|
| `{a}`, `{b}`, `{c}` | variables that are there already; the same slot is the same variable throughout a statement |
| `{new}`, `{new2}` | names of new variables |
| `{dim}`, `{dim2}`, `{num}`, `{dt}`, `{seed}`, `{index}` | a dimension, a number, a dtype, a seed, an index expression |
| `{unary}`, `{binary}`, ... | a name of the table of this name below |
| `{x|y|z}` | one of the alternatives |

A template that begins with `= ` assigns to a new variable. `fit(t, *sizes)` brings any tensor into a shape, so that a network's
layers have something to work on whose gradient flows back; `execute.py` says what else a program may call.
"""

from __future__ import annotations

import random
import re

DTYPES = "float32 float64 int64 int32 bool float16 bfloat16 complex64 uint8 complex128 int16 int8".split()
NAMES = {
    "unary": """abs neg exp sin cos tanh sigmoid relu sqrt log1p square floor ceil round sign reciprocal rsqrt erf expm1 trunc frac logical_not isnan
        isfinite positive sgn log log2 log10 exp2 erfc erfinv lgamma digamma sinc tan asin acos atan sinh cosh asinh acosh atanh isinf isposinf isneginf
        signbit angle deg2rad rad2deg nan_to_num bitwise_not i0 logit conj real imag resolve_conj special.entr special.ndtr special.log_ndtr special.i0e
        special.i1 special.i1e special.bessel_j0 special.bessel_j1 special.expit special.erfcx special.psi special.gammaln special.xlog1py
        special.ndtri mvlgamma polar view_as_real""".split(),
    "activation": """gelu silu softplus elu leaky_relu hardtanh relu6 hardswish logsigmoid mish softsign selu celu hardsigmoid hardshrink softshrink
        tanhshrink threshold glu relu rrelu normalize""".split(),
    "binary": """add sub mul div pow maximum minimum fmod remainder atan2 floor_divide hypot copysign logaddexp eq lt ge ne logical_and logical_xor
        bitwise_and logical_or bitwise_or bitwise_xor gt le true_divide fmax fmin logaddexp2 xlogy nextafter ldexp heaviside gcd lcm rsub
        bitwise_left_shift bitwise_right_shift float_power special.xlogy special.zeta special.xlog1py dist cdist isclose allclose equal polar complex""".split(),
    "reduce": """sum mean prod amax amin std var logsumexp all any argmax argmin count_nonzero median nansum nanmean max min cumsum cumprod mode
        nanmedian logcumsumexp cummax cummin aminmax var_mean std_mean sort argsort msort unique softmax log_softmax norm quantile nanquantile kthvalue
        linalg.norm linalg.vector_norm diff flip unbind trapezoid squeeze unsqueeze fft.fft fft.rfft fft.ifft fft.fftshift topk""".split(),
    "unary_": """abs_ neg_ exp_ sin_ tanh_ relu_ sigmoid_ sqrt_ floor_ square_ zero_ sgn_ reciprocal_ rsqrt_ erf_ cos_ log_ log1p_ round_ trunc_ frac_ ceil_
        sign_ expm1_ logical_not_ bitwise_not_ nan_to_num_ conj_physical_ digamma_ lgamma_ tan_ atan_ sinh_ asinh_ t_ squeeze_ detach_ erfinv_ logit_
        sinc_ i0_ angle deg2rad_ fill_diagonal_ requires_grad_ contiguous""".split(),
    "binary_": """add_ sub_ mul_ div_ copy_ pow_ fill_ clamp_ clamp_min_ clamp_max_ remainder_ fmod_ floor_divide_ atan2_ eq_ lt_ ge_ logical_and_ bitwise_and_
        hypot_ copysign_ xlogy_ lerp_ true_divide_ gt_ ne_ logical_xor_ bitwise_xor_ float_power_ nextafter_ ldexp_ heaviside_ gcd_ masked_fill_ set_
        bitwise_or_ arctan2_ __iadd__ __imul__ __itruediv__ __ipow__ __iand__ type_as view_as expand_as reshape_as""".split(),
    "loss": "mse_loss l1_loss smooth_l1_loss huber_loss soft_margin_loss kl_div poisson_nll_loss binary_cross_entropy_with_logits".split(),
    "out1": "exp sin abs neg sqrt sigmoid tanh floor sign log reciprocal logical_not isnan trace tril triu".split(),
    "out2": "add mul sub div maximum atan2 pow eq lt remainder logical_and mm matmul bmm".split(),
    "outd": "sum mean amax cumsum prod cumprod logsumexp argmax any all std softmax".split(),
}

# What the first statements of every program and a good half of the others are: elementary operations.
BASIC: list[tuple[float, list[str]]] = [
    (14, ["= torch.{unary}({a})", "= {a}.{unary}()"]),
    (5, ["= F.{activation}({a})", "= F.{activation}({a}, inplace=True)"]),
    (13, ["= torch.{binary}({a}, {b})", "= torch.{binary}({a}, {num})", "= {a}.{binary}({b})", "= torch.{binary}({num}, {a})", "= torch.{binary}(input={a}, other={b})"]),
    (10, ["= torch.{reduce}({a})", "= torch.{reduce}({a}, dim={dim})", "= torch.{reduce}({a}, {dim})", "= torch.{reduce}({a}, dim={dim}, keepdim=True)", "= {a}.{reduce}({dim})",
         "= torch.{sum|mean|amax|std|norm|all}({a}, dim=({dim}, {dim2}))", "= torch.{sum|prod|mean|cumsum|softmax|nansum}({a}, {dim}, dtype=torch.{dt})"]),
    (15, ["= {a}.transpose({dim}, {dim2})", "= {a}[{index}]", "= {a}.unsqueeze({dim})", "= {a}.squeeze({|0|-1|1})", "= {a}.flatten({|0|1|0, 1})", "= {a}.reshape(-1)",
         "= {a}.view({-1|-1, 1|2, -1|torch.int32})", "= {a}.expand(2, *{a}.shape)", "= {a}.flip({dim})", "= {a}.diagonal({|1|0, 0, 1})", "= {a}.unfold({dim}, 1, 1)", "= {a}.t()",
         "= {a}.{T|mT|H|mH|real|imag|data|grad}", "= {a}.movedim({dim}, {dim2})", "= {a}.{contiguous|detach|clone}()", "= {a}.narrow({dim}, 0, 1)", "= {a}.select({dim}, 0)",
         "= {a}.roll(1{|, 0|, -1})", "= torch.view_as_{real|complex}({a})", "= {a}.swapaxes({dim}, {dim2})", "= {a}.permute({0, 1|1, 0|2, 0, 1|-1, 0|0})", "= {a}.rot90()",
         "= {a}.as_strided((2,), (1,))", "= {a}.ravel()", "= {a}.tile(2)", "= torch.atleast_{1|2|3}d({a})", "= {a}.repeat_interleave(2{|, 0})", "= torch.broadcast_to({a}, (2, *{a}.shape))"]),
    (7, ["{a}.{unary_}()"]),
    (8, ["{a}.{binary_}({b})", "{a}.{binary_}({num})", "{a}.{add_|sub_}({b}, alpha={num})", "{a}.{addcmul_|addcdiv_|lerp_|where|clamp_}({b}, {c})", "{a}.addcmul_({b}, {c}, value=2)"]),
    (6, ["{a}[{index}] = {b}", "{a}[{index}] = {num}", "{a}[{b} > 0] = {num}", "{a}[{b} > 0] = {c}", "{a}.masked_fill_({b} > 0, {num})", "{a}.index_add_({dim}, torch.tensor([0, 0]), {b})",
        "{a}.index_fill_({dim}, torch.tensor([0]), {num})", "{a}.scatter_({dim}, torch.zeros_like({a}, dtype=torch.int64), {b})", "{a}.requires_grad_()", "{a}.data.mul_(2)",
        "{a}.index_copy_(0, torch.tensor([0]), {b}[:1])", "{a}.scatter_add_(0, torch.zeros_like({a}, dtype=torch.int64), {b})", "{a}.put_(torch.tensor([0]), {b}.reshape(-1)[:1])",
        "{a}.masked_scatter_({a} > 0, {b})", "{a}.index_put_((torch.tensor([0, 0]),), {b}, accumulate=True)", "{a}.data = {b}", "{a}.detach().add_(1)", "{a}.tril_()", "{a}.{cumsum_|cumprod_}({dim})"]),
    (9, ["= torch.cat([{a}, {b}], {dim})", "= torch.stack([{a}, {a}], {dim})", "= {a}.split(1, {dim})[0]", "= {a}.chunk(2)[-1]", "= torch.where({a} > 0, {a}, {b})", "= {a} @ {b}",
        "= torch.outer({a}, {b})", "= torch.einsum('...i,...i->...', {a}, {b})", "= {a}.sort({dim})[0]", "= {a}.topk(1, {dim})[0]", "= {a}.softmax({dim})", "= {a}.log_softmax({dim})",
        "= torch.{tril|triu}({a}{|, 1})", "= {a}.gather({dim}, torch.zeros_like({a}, dtype=torch.int64))", "= torch.clamp({a}, {num}, {num})", "= torch.clamp({a}, {b}, {c})",
        "= torch.clamp({a}, {min|max}={b})", "= torch.lerp({a}, {b}, {0.3|2})", "= torch.lerp({a}, {b}, {c})", "= torch.addcmul({a}, {b}, {c}, value=2)", "= torch.addcdiv({a}, {b}, {c})",
        "= torch.diff({a})", "= {a}.repeat(2, 1{|, 1})", "= {a}.index_select({dim}, torch.tensor([0, 0]))", "= torch.{dot|inner|kron|cross|mv|mm|bmm|matmul|vdot|tensordot}({a}, {b})",
        "= torch.hstack([{a}, {b}])", "= torch.take({a}, torch.tensor([0]))", "= torch.{addmm|addmv|addr|baddbmm|addbmm}({a}, {b}, {c})", "= torch.take_along_dim({a}, {a}.argsort({dim}), {dim})",
        "= torch.searchsorted({a}.sort()[0], {b})", "= torch.bucketize({a}, torch.tensor([-1., 0., 1.]))", "= torch.masked_select({a}, {b} > 0)", "= torch.renorm({a}, 2, {dim}, 1.)",
        "= torch.bincount({a})", "= torch.histc({a}, 4, -2, 2)", "= torch.nonzero({a})", "= torch.cov({a})", "= torch.vander({a})", "= torch.isin({a}, {b})", "= torch.block_diag({a}, {b})",
        "= torch.cartesian_prod({a}, {b})", "= torch.combinations({a})", "= {a}.scatter({dim}, torch.zeros_like({a}, dtype=torch.int64), {b}, reduce='{add|multiply}')",
        "= {a}.scatter_reduce(0, torch.zeros_like({a}, dtype=torch.int64), {b}, '{sum|prod|mean|amax|amin}')", "= torch.{zeros|ones|full|rand}_like({a}{, 1.|})", "= {a}.new_{zeros|ones}({a}.shape)"]),
    (5, ["= {a}.to(torch.{dt})", "= {a}.{float|double|int|long|half|bfloat16|bool|cfloat}()", "= {a}.to({b})", "= {a}.type_as({b})", "= {a}.{item|tolist|dim|numel|is_complex|element_size}()",
        "= torch.{result_type|can_cast|promote_types}({a}, {b})", "= torch.as_tensor({a}, dtype=torch.{dt})", "= torch.tensor({a})", "= {a}.__{bool|int|float|len|index}__()"]),
    (4, ["torch.{out2}({a}, {b}, out={c})", "torch.{out1}({a}, out={b})", "torch.{outd}({a}, {dim}, out={b})", "torch.cat([{a}, {b}], out={c})", "torch.{out2}({a}, {num}, out={c})"]),
    (4.5, ["= {a} * 2 + {b}", "= ({a} - 1) ** 2", "= {a} / ({b}.abs() + 1)", "= -{a}", "= {a} {>|<|==|!=|>=|&|or|%|//|**|<<} {b}", "= ~{a}", "= {a} {//|%|**|+|-|*|/|&|^|==|<} {num}", "= {num} {**|/|-|//|%|+|*|<} {a}"]),
]  # fmt: skip

TOPICS = {
    "layers": [
        "= F.conv2d(fit({a}, 2, 2, 4, 4), fit({b}, 2, {2|1}, {1|2|3}, 2), {None|fit({c}, 2)}, {1|2}, {0|1|'same'|'valid'}, {1|2}, {1|2})",
        "= F.conv1d(fit({a}, {2, |}2, 6), fit({b}, 4, 2, {1|3}), stride={1|2}, padding={0|1})", "= F.conv_transpose2d(fit({a}, 1, 2, 3, 3), fit({b}, 2, 2, 2, 2), stride={1|2}, output_padding={0|1})",
        "= F.conv3d(fit({a}, 1, 2, 3, 3, 3), fit({b}, 2, 2, 2, 2, 2))", "= F.linear(fit({a}, {3, |}4), fit({b}, {2, |}4), {None|fit({c}, 2)})", "= F.bilinear(fit({a}, 2, 3), fit({b}, 2, 2), fit({c}, 2, 3, 2))",
        "= F.{max|avg|lp}_pool2d(fit({a}, {2, |}2, 4, 5), {2|3|(2, 1)}{|, stride=1})", "= F.max_pool2d(fit({a}, 2, 4, 5), 2, return_indices=True)[0]", "= F.avg_pool2d(fit({a}, 2, 4, 5), 2, 1, 1, {True|False}, {True|False}, {None|3})",
        "= F.adaptive_{avg|max}_pool{1|2|3}d(fit({a}, 2, 4, 5), {1|2|3|(2, 2)|None})", "= F.max_unpool1d(*F.max_pool1d(fit({a}, 1, 1, 6), 2, return_indices=True), 2)",
        "= F.layer_norm({a}, {a}.shape[-1:]{|, fit({b}, {a}.shape[-1])})", "= F.group_norm(fit({a}, 2, 4, 3), {1|2|3}{|, fit({b}, 4)})", "= F.instance_norm(fit({a}, 2, {1|3}, 4))",
        "= F.batch_norm(fit({a}, 4, 2{|, 3}), {None|fit({b}, 2).detach()}, {None|fit({c}, 2).detach().abs()}, training={True|False})", "= F.rms_norm({a}, {a}.shape[-1:])", "= F.local_response_norm(fit({a}, 2, 4, 3), {1|2|3})",
        "= F.pad({a}, ({1, 1|-1, 2|0, 1, 1, 0}){|, 'constant', 3.})", "= F.pad(fit({a}, 2, 2, 3, 4), (1, 1{|, 1, 2}), '{reflect|replicate|circular|constant}')", "= F.interpolate(fit({a}, 1, 2, 3, 4), {size=(4, 5)|scale_factor=2|scale_factor=1.5|scale_factor=.5}, mode='{nearest|bilinear|bicubic|area|nearest-exact}')",
        "= F.interpolate(fit({a}, 1, 2, 3, 4), size=(5, 3), mode='bilinear', align_corners={True|False}, antialias={True|False})", "= F.grid_sample(fit({a}, 1, 2, 3, 3), fit({b}, 1, 2, 2, 2), '{bilinear|nearest|bicubic}', '{zeros|border|reflection}', {True|False})",
        "= F.affine_grid(fit({a}, 1, 2, 3), (1, 1, 2, 3), align_corners={True|False})", "= F.pixel_shuffle(fit({a}, 1, 4, 2, 2), 2)", "= F.{unfold|fold}(fit({a}, 1, 4, 4){, 2|, (3, 3), 2|[:, None], 2})", "= F.embedding(torch.tensor([0, 2, 0]), fit({a}, 3, 2), padding_idx={None|0})",
        "= F.embedding_bag(torch.tensor([[0, 2], [1, 1]]), fit({a}, 3, 2), mode='{sum|mean|max}')", "= F.scaled_dot_product_attention(fit({a}, 2, 3, 4), fit({b}, 2, 3, 4), fit({c}, 2, 3, 4), is_causal={True|False})", "= F.scaled_dot_product_attention(fit({a}, 3, 4), fit({b}, 3, 4), fit({c}, 3, 4), attn_mask={torch.ones(3, 3).tril().bool()|fit({a}, 3, 3)})",
        "= F.softmax({a}, {dim}{|, dtype=torch.float64})", "= F.gumbel_softmax({a}, dim=-1, hard={True|False})", "= F.dropout({a}, 0.5, {True|False})", "= F.alpha_dropout({a}, .3, training=True)", "= F.dropout2d(fit({a}, 2, 3, 2, 2), .5)", "= F.prelu(fit({a}, 2, 2, 2), fit({b}, {1|2}))",
        "= F.one_hot({a}{|, 5})", "= F.normalize({a}, {p=1|p=2|dim=0|dim=-1})", "= F.cosine_similarity({a}, {b}, dim={dim})", "= F.pairwise_distance({a}, {b})", "= F.pdist({a})", "= torch.cdist(fit({a}, 3, 2), fit({b}, 2, 2), {0|1|2|3|inf})", "= F.channel_shuffle(fit({a}, 1, 4, 2, 2), 2)",
        "= nn.{Linear(4, 3)|Bilinear(4, 4, 2)|LayerNorm(4)|RMSNorm(4)|Identity()|Flatten(0)|PReLU()|Softmax(-1)|Dropout(.5)|Tanhshrink()}(fit({a}, 2, 4))", "= nn.{LSTM|GRU|RNN}(3, 2, {1|2}, batch_first={True|False}, bidirectional={True|False})(fit({a}, 2, 4, 3))[0]",
        "= nn.{Conv2d(2, 3, 2)|ConvTranspose2d(2, 2, 2, 2)|BatchNorm2d(2)|InstanceNorm2d(2, affine=True)|GroupNorm(2, 2)|MaxPool2d(2)|AdaptiveAvgPool2d(1)|Upsample(scale_factor=2)|PixelUnshuffle(2)|ReflectionPad2d(1)|Dropout2d()|Unfold(2)|LPPool2d(2, 2)}(fit({a}, 2, 2, 4, 4))",
        "= nn.MultiheadAttention(4, 2, batch_first={True|False})(fit({a}, 2, 3, 4), fit({b}, 2, 3, 4), fit({c}, 2, 3, 4))[{0|1}]", "= nn.TransformerEncoderLayer(4, 2, 8, {0.|.3}, batch_first=True, norm_first={True|False})(fit({a}, 2, 3, 4))",
        "= torch.stft(fit({a}, 16), 8, 4, window=torch.ones(8), return_complex=True)", "= torch.fft.{fft2|rfft2|ifft2|fftn|irfft2}(fit({a}, 3, 4))", "= torch.fft.{fft|rfft|irfft|hfft|ihfft}({a}, {None|3}, {dim}, '{ortho|forward|backward}')",
    ],
    "losses": [
        "= F.{loss}({a}, {b})", "= F.{loss}({a}, {b}, reduction='{none|sum|mean|batchmean|other}')", "= F.mse_loss({a}, {b}, weight=fit({c}, *{a}.shape))", "= F.cross_entropy(fit({a}, 3, 4), torch.tensor([0, 3, {1|2|-100}]), reduction='{none|sum|mean}', label_smoothing={0.|.1})",
        "= F.cross_entropy(fit({a}, 3, 4), fit({b}, 3, 4).softmax(1){|, fit({c}, 4)})", "= F.cross_entropy(fit({a}, 2, 4, 2), torch.tensor([[0, 3], [1, 1]]), fit({b}, 4).abs())", "= F.nll_loss(fit({a}, 3, 4){|.log_softmax(1)}, torch.tensor([0, 3, 1]){|, fit({b}, 4)}, ignore_index={-100|1})",
        "= F.binary_cross_entropy(fit({a}, 4).sigmoid(), fit({b}, 4).sigmoid(){|, fit({c}, 4)})", "= F.binary_cross_entropy_with_logits(fit({a}, 4), fit({b}, 4).sigmoid(), {None|fit({c}, 4)}, pos_weight={None|fit({c}, 4)})", "= F.kl_div(fit({a}, 2, 4).log_softmax(1), fit({b}, 2, 4).{softmax(1)|log_softmax(1)}, reduction='{batchmean|sum|mean}', log_target={True|False})",
        "= F.hinge_embedding_loss(fit({a}, 4), torch.tensor([1., -1., 1., -1.]){|, 2.})", "= F.margin_ranking_loss(fit({a}, 4), fit({b}, 4), torch.tensor([1., -1., 1., -1.]), {0.|.5})", "= F.triplet_margin_loss(fit({a}, 2, 3), fit({b}, 2, 3), fit({c}, 2, 3), swap={True|False})", "= F.cosine_embedding_loss(fit({a}, 2, 3), fit({b}, 2, 3), torch.tensor([1, -1]))",
        "= F.multi_margin_loss(fit({a}, 2, 3), torch.tensor([0, 2]), {1|2})", "= F.multilabel_margin_loss(fit({a}, 3), torch.tensor([0, 2, -1]))", "= F.multilabel_soft_margin_loss(fit({a}, 2, 3), fit({b}, 2, 3).sigmoid())", "= F.gaussian_nll_loss(fit({a}, 4), fit({b}, 4), fit({c}, 4).abs(), full={True|False})", "= F.smooth_l1_loss({a}, {b}, beta={.5|0.|2})", "= F.huber_loss({a}, {b}, delta={.5|2})",
        "= F.ctc_loss(fit({a}, 4, 1, 3).log_softmax(-1), torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2]), reduction='{sum|mean|none}')", "= F.poisson_nll_loss({a}, {b}, log_input={True|False}, full={True|False})",
    ],
    "linear algebra": [
        "= torch.linalg.{det|inv|slogdet|matrix_norm|eigvalsh|svdvals|cond|matrix_rank|matrix_exp|pinv|cholesky|qr|eigh|svd|lu|lu_factor|inv_ex|eigvals|norm|vector_norm|diagonal}(fit({a}, {2, 2|3, 3|2, 3|2, 2, 2}))",
        "= torch.linalg.cholesky(fit({a}, 2, 2) @ fit({a}, 2, 2).mT + 9 * torch.eye(2))", "= torch.linalg.solve(fit({a}, 2, 2) + 5 * torch.eye(2), fit({b}, 2{|, 3}))", "= torch.linalg.lstsq(fit({a}, 3, 2), fit({b}, 3, 1))[0]", "= torch.linalg.solve_triangular(fit({a}, 2, 2) + 5 * torch.eye(2), fit({b}, 2, 3), upper={True|False})",
        "= torch.linalg.{norm|vector_norm|matrix_norm}(fit({a}, 2, 3), {2|1|inf|-inf|0|3}{|, dim=0|, dim=(0, 1)|, dim={dim}})", "= torch.{det|inverse|logdet|slogdet|trace|matrix_exp|pinverse|cholesky|qr|svd}(fit({a}, 2, 2))", "= torch.linalg.multi_dot([fit({a}, 2, 3), fit({b}, 3, 2), fit({c}, 2)])", "= torch.linalg.cross(fit({a}, 2, 3), fit({b}, 2, 3))",
        "= torch.linalg.matrix_power(fit({a}, 2, 2), {0|2|3|-1})", "= torch.{norm|renorm}({a}, {2|1|inf|'fro'|'nuc'|3})", "= torch.norm({a}, {2|1|inf|'fro'}, {dim}{|, True})", "= torch.linalg.vecdot({a}, {b})", "= torch.chain_matmul(fit({a}, 2, 3), fit({b}, 3, 2))", "= torch.tensordot({a}, {b}, {0|1})", "= torch.linalg.vander({a})",
        "= torch.einsum('{ij,jk->ik|ij,ij->|ii->i|ij->ji|bij,bjk->bik|i,j->ij|ij,j}', {a}{, {b}|})", "= torch.lu_solve(fit({b}, 2, 1), *torch.linalg.lu_factor(fit({a}, 2, 2) + 5 * torch.eye(2)))", "= torch.triangular_solve(fit({b}, 2, 1), fit({a}, 2, 2) + 5 * torch.eye(2))[0]", "= torch.cholesky_solve(fit({b}, 2, 1), fit({a}, 2, 2) + 5 * torch.eye(2))",
    ],
    "sparse": [
        "= fit({a}, 3, 4).to_sparse({|1})", "= fit({a}, 3, 4).to_sparse_csr()", "= {a}.to_sparse()", "= {a}.to_dense()", "= {a}.{coalesce|_nnz|is_coalesced|is_sparse|sparse_dim|values|indices|to_sparse_csr|crow_indices}()", "= torch.sparse_coo_tensor(torch.tensor([[0, 1, 1], [2, 0, 2]]), fit({a}, 3), (2, 3))", "= torch.sparse.mm({a}, fit({b}, 4, 2))",
        "= torch.sparse.mm(torch.sparse_coo_tensor(torch.tensor([[0, 1, 1], [2, 0, 2]]), fit({a}, 3), (2, 3)), fit({b}, 3, 2))", "= torch.sparse.sum({a}{|, 0|, 1})", "= torch.sparse.softmax({a}, {dim})", "= torch.sparse.addmm(fit({a}, 3, 2), fit({b}, 3, 4).to_sparse(), fit({c}, 4, 2))", "= {a}.sparse_mask(fit({b}, 3, 4).to_sparse())", "= fit({a}, 3, 4).to_sparse() * {num}",
        "= fit({a}, 3, 4).to_sparse() {+|*} fit({b}, 3, 4).to_sparse()", "= fit({a}, 3, 4).to_sparse().{transpose(0, 1)|t()|sum()|neg()|abs()|sqrt()|clone()|detach()|float()|double()|sum(0)|norm()}",
    ],
    "hooks": [
        "{a}.register_hook(lambda g: {g * 2|None|g.clone()|g + 1|3})", "{a}.retain_grad()", "{a}.register_post_accumulate_grad_hook(lambda t: t.grad.mul_(2))", "torch.autograd.graph.register_multi_grad_hook([{a}, {b}], lambda gs: None)", "{new} = hooked(nn.Linear(2, 2), '{forward|forward_pre|full_backward|full_backward_pre}')(fit({a}, 3, 2))",
        "with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):\n    {new} = torch.{exp|sin|sqrt|square|sigmoid}({a})", "with torch.autograd.graph.save_on_cpu():\n    {new} = {a} * {b}", "{new} = torch.utils.checkpoint.checkpoint(lambda t: t.sin().exp(), {a}, use_reentrant={True|False})",
        "{new} = Double.apply({a})", "{new} = ClampGrad.apply({a}, {b})",
    ],
    "transforms": [
        "= torch.func.vmap(torch.{unary})({a})", "= torch.func.vmap(torch.{binary}{|, in_dims=(0, None)|, in_dims=(None, 0)})({a}, {b})", "= torch.func.vmap(lambda t: torch.{reduce}(t{|, 0|, -1}))({a})", "= torch.func.vmap(lambda t: t.{sum()|mean(0)|t()|reshape(-1)|sort()[0]|softmax(-1)|cumsum(0)|flip(0)|diagonal()|unsqueeze(0)|clone().mul_(2)}, out_dims={0|-1|1})({a})",
        "= torch.func.grad(lambda t: t.{sin()|exp()|tanh()|square()|abs()|norm()|prod()|sqrt()|relu()}.sum())({a})", "= torch.func.{jacrev|jacfwd|hessian}(lambda t: t.{sin()|exp()|square().sum()|prod()|cumsum(0)})(fit({a}, 2))", "= torch.func.{vjp|jvp}(torch.{unary}, {({a},), ({b},)|{a}})[0]", "= torch.func.jvp(torch.{unary}, ({a},), (torch.ones_like({a}),))",
        "= torch.func.vmap(torch.func.grad(lambda t: t.{sin|exp|square}().sum()))({a})", "= torch.func.jvp(torch.{mul|div|pow|atan2|maximum|sub|hypot}, ({a}, {b}), ({b}, {a}))", "= torch.func.functional_call(nn.Linear(2, 2), dict(weight=fit({a}, 2, 2), bias=fit({b}, 2)), (fit({c}, 3, 2),))", "= torch.func.linearize(torch.{sin|exp|tanh}, {a})[0]",
        "with fw.dual_level():\n    d = fw.make_dual({a}, {b})\n    {new}, {new2} = fw.unpack_dual({torch.{unary}(d)|d * {c}|d.transpose(0, -1)|d[{index}]|d.{reduce}()|torch.{binary}(d, {c})})", "with fw.dual_level():\n    d = fw.make_dual({a}.clone(), {b}.clone())\n    d.{{unary_}()|{binary_}({c})|{binary_}({num})}\n    {new}, {new2} = fw.unpack_dual(d)",
        "with fw.dual_level():\n    d = fw.make_dual(fit({a}, 3, 4), fit({b}, 3, 4))\n    {new}, {new2} = fw.unpack_dual({F.softmax(d, 1)|F.layer_norm(d, (4,))|d @ fit({c}, 4, 2)|F.cross_entropy(d, torch.tensor([0, 1, 2]))|torch.logsumexp(d, 0)|d.sort(1)[0]|F.gelu(d)|d.cumprod(1)|torch.linalg.norm(d)|d.std(1)|d.prod(0)|d.max(1)[0]})",
        "= torch.autograd.functional.{jacobian|hessian|vjp|jvp}(lambda t: t.square().sum(), {a})",
    ],
    "gradients": [
        "{new}, = torch.autograd.grad({a}.sum(), {b}, create_graph=True{|, allow_unused=True})", "{new}, = torch.autograd.grad({a}{|.real}.sum(), leaves[:1], {create_graph=True|retain_graph=True|allow_unused=True|materialize_grads=True})", "{a}.sum().backward({|retain_graph=True|create_graph=True})", "{a}.backward({|torch.ones_like({a})|{b}|retain_graph=True})", "{a}.{abs|square}().sum().backward(retain_graph=True)",
        "torch.autograd.backward([{a}, {b}], [torch.ones_like({a}), torch.ones_like({b})])", "for l in leaves:\n    l.grad = None", "{a}.grad = {b}", "{a}.grad.zero_()", "leaves[0].data.mul_(2)", "with torch.no_grad():\n    leaves[0].mul_(2)", "{a}.requires_grad = {True|False}", "{a}.requires_grad_({|False|True})", "{a}.detach_()",
        "{new} = torch.autograd.grad(({a} * {b}).sum(), leaves[-1:], is_grads_batched={True|False}, grad_outputs={None|torch.ones(2)}, allow_unused=True)[0]", "= leaves[0].grad", "= {a}.grad_fn is None", "{new} = {a}.clone().requires_grad_()", "torch.nn.utils.clip_grad_norm_(leaves, 1.)", "torch.optim.{SGD(leaves, .1)|Adam(leaves, .1)|RMSprop(leaves, .1)|SGD(leaves, .1, .9, nesterov=True)|AdamW(leaves, .1)}.step()",
    ],
    "modes": [
        "with torch.{no_grad|enable_grad|inference_mode}():\n    {new} = {{a} * 2|{a}.view(-1)|{a}[{index}]|{a}.detach()|{a}.clone()|{a} + {b}|{a}.t()}", "with torch.{no_grad|inference_mode}():\n    {a}.{{unary_}()|{binary_}({b})|{binary_}({num})}", "with torch.no_grad():\n    {new} = {a}.view(-1)\n{new}.{mul_(2)|add_({b})|requires_grad_()|relu_()}",
        "with torch.inference_mode({True|False}):\n    {new} = torch.{unary}({a})", "with torch.set_grad_enabled({True|False}):\n    {new} = torch.{binary}({a}, {b})", "with torch.autocast('cpu', torch.{bfloat16|float16}):\n    {new} = {{a} @ {b}|F.linear(fit({a}, 2, 3), fit({b}, 2, 3))|torch.{unary}({a})|torch.{binary}({a}, {b})|F.{loss}({a}, {b})|F.softmax({a}, -1)|F.layer_norm({a}, {a}.shape[-1:])|torch.cat([{a}, {b}])|torch.stack([{a}, {b}])|{a}.sum()|F.conv1d(fit({a}, 1, 2, 4), fit({b}, 2, 2, 2))|torch.linalg.norm({a})|torch.einsum('ij,jk', {a}, {b})}",
        "{new}, {new2} = both(lambda: torch.{unary}({a}), lambda: torch.{binary}({a}, {b}))", "{new}, {new2} = both(lambda: torch.is_grad_enabled(), lambda: ({a} * {b}).{sum()|exp()|sin()})", "both(lambda: {a}.sum().backward(retain_graph=True), lambda: {b}.sum().backward(retain_graph=True))", "with torch.autograd.set_multithreading_enabled(False):\n    {a}.sum().backward(retain_graph=True)",
        "with torch.random.fork_rng():\n    torch.manual_seed({seed})\n    {new} = torch.{rand|randn|randperm|randint}({3|2, 2|0, 3, (2,)})", "torch.manual_seed({seed})\n{new} = {a}.clone().{uniform_()|normal_()|bernoulli_(.5)|exponential_()|random_(10)|geometric_(.5)|cauchy_()|log_normal_()}", "= torch.{bernoulli|rand_like|randn_like|normal|poisson|multinomial}({a}{|, 1|, {b}})", "with torch.autograd.detect_anomaly(check_nan={True|False}):\n    {a}.sum().backward(retain_graph=True)",
        "torch.set_default_dtype(torch.{float64|float32})\n{new} = {a} / 2 + torch.ones(()) * {num}\ntorch.set_default_dtype(torch.float32)", "with torch.autograd.graph.allow_mutation_on_saved_tensors():\n    {new} = {a}.sin()", "with torch.autograd.forward_ad.dual_level():\n    {new} = {a} * 2",
    ],
    "creation": [
        "= torch.{arange|linspace|logspace}({0, 3|1, 2, 4|0, 1, 5|3}{|, dtype=torch.{dt}})", "= torch.full({(2, 2)|()|(0,)}, {num}{|, dtype=torch.{dt}})", "= torch.tensor({[1, 2]|[[1., 2], [3, 4]]|[]|True|[1j]|2.5|[[1], [2, 3]]|'x'|[True, 2]|{a}|[{a}.sum(), {b}.sum()]}{|, dtype=torch.{dt}})", "= torch.{zeros|ones|eye|rand}({2, 3|2|(2, 3)|0|-1|2.5|()}{|, dtype=torch.{dt}|, requires_grad=True})",
        "= torch.{zeros|ones|eye}({2, 3|2}, out={a})", "= {a}.new_{tensor|full|zeros}({(2,)|(2,), 3.|[1, 2]|2, 2})", "= torch.complex({a}, {b})", "= torch.meshgrid({a}, {b}, indexing='{ij|xy}')", "= torch.tril_indices(2, 3)", "= torch.from_numpy({a}.detach().numpy())", "= {a}.numpy().tolist()", "= torch.asarray({a}{|, copy=True|, dtype=torch.{dt}})", "= torch.scalar_tensor({num})", "= torch.{hann|hamming|bartlett|kaiser|blackman}_window(5)",
    ],
    "calls": [  # keyword names, defaults and numbers of arguments
        "= torch.{unary}({input={a}|{a}, {b}|})", "= torch.{reduce}({input={a}, dim={dim}|{a}, axis={dim}|{a}, {dim}, True|{a}, None|{a}, ()|{a}, 1.0|{a}, True})", "= torch.{binary}({{a}, {b}, {c}|{a}, other={b}|input={a}, other={num}|{a}|{num}, {num}|self={a}, other={b}|{a}, None|{a}, [1]|{a}, 'x'})", "= {a}.{reduce}({dim={dim}|axis={dim}|{dim}, True|keepdim=True|{dim}, keepdim=False|1.5})",
        "= {a}.{binary}({other={b}|{b}, {c}||None|1j})", "{a}.{binary_}({other={b}|{b}, {c}||None|1j|[1]})", "= {a}.{size|stride|dim|numel|is_contiguous|nelement|ndimension|get_device|is_signed|storage_offset}({|0|{dim}|-1, 2})", "= {a}.{view|reshape|permute|expand|repeat|squeeze|unsqueeze|flip|transpose|tile}({dim}{|, {dim2}})", "= {a}.{view|reshape|permute|expand|repeat|flip|sum|squeeze}(({dim}, {dim2}))",
        "= {a}[{index}, {index}]", "= {a}[{b}]", "{a}[{index}, {index}] = {num}", "{a}[{b}] = {num}", "del {a}[0]", "= {a}.{split|chunk|tensor_split|unbind|hsplit|vsplit}({2|1|[1, 1]|0|-1|{dim}})", "= len({a})", "= {a} in {b}", "= list({a})", "= {num} in {a}", "= {a} {+|*|@|<<|%|//|&} {None|'x'|[1]|(1, 2)|object()}", "= torch.{cat|stack|hstack|dstack|column_stack}({({a}, {b})|[]|{a}|[{a}, 1]|[{a}], 3|tensors=[{a}]})",
        "= {a}.nonexistent", "= torch.{softmax|log_softmax}({a}, {dim}, torch.{dt})", "= {a}.{any|all|sum|mean|prod|std|var|max|min|argmax|median|norm}({|{dim}|None|(0, 1)|[]|0, 1})", "= torch.{sum|mean|amax|all|any|logsumexp|flip|std|argmax|cumsum|unsqueeze|squeeze|softmax|sort|unbind|select}({a}, {3|-4|7|-7})",
    ],
}  # fmt: skip
SHARES = {"layers": 14, "losses": 7, "linear algebra": 6, "sparse": 4, "hooks": 6, "transforms": 12, "gradients": 14, "modes": 12, "creation": 5, "calls": 20}

INDICES = ["0", "-1", "1:", "::2", "..., 0", "None", ":, 1:", "[0, 0, 1]", "...", "5", "True", "False", "torch.tensor([0, 0])", "torch.tensor(0)", ":1, ..., None", "0, 0", "torch.tensor([True, False])", "-2:", "()", "[True, False]", "1.5", "::-1"]  # fmt: skip
NUMBERS = ["2", "0.5", "-1", "True", "2", "0.5", "3.", "0", "-2.5", "1j", "float('inf')", "1e30"]
DIMS = ["0", "-1", "1", "-2", "2", "0", "-1", "1", "-1", "3", "-4"]

WORDS = NAMES | {"dim": DIMS, "dim2": DIMS, "num": NUMBERS, "dt": DTYPES, "index": INDICES, "seed": ["0", "7", "99"]}


class Writer:
    """Writes one program; the same seed and number always give the same text."""

    def __init__(self, seed: str, number: int):
        self.random = random.Random(f"{seed}-{number}")
        self.names: list[str] = []

    def new(self) -> str:
        self.names.append(f"v{len(self.names)}")
        return self.names[-1]

    def program(self) -> list[str]:
        choice = self.random.choice
        lines = []
        for _ in range(self.random.randint(2, 3)):
            shape = [choice([1, 2, 3, 4]) for _ in range(self.random.randint(0, 3))]
            if self.random.random() < 0.04 and shape:
                shape[0] = 0
            dtype = choice(DTYPES[:2] * 6 + DTYPES)
            lines.append(f"{self.new()} = mk({shape}, '{dtype}', {self.random.randint(0, 999)}, {self.random.random() < 0.6})")
        topic = self.random.choices(list(SHARES), list(SHARES.values()))[0]
        for _ in range(self.random.randint(3, 8)):
            if self.random.random() < 0.55:
                template = choice(self.random.choices(BASIC, [weight for weight, _ in BASIC])[0][1])
            else:
                template = choice(TOPICS[topic if self.random.random() < 0.7 else choice(list(TOPICS))])
            lines.append(self.fill(template))
        return lines

    def fill(self, template: str) -> str:
        """Put something into the slots, from the innermost outwards."""
        given = {slot: self.random.choice(self.names) for slot in "abc"}
        text = "{new} " + template if template.startswith("= ") else template
        while True:
            found = re.search(r"\{([^{}]*)\}", text)
            if not found:
                return text
            text = text[: found.start()] + self.slot(found[1], given) + text[found.end() :]

    def slot(self, name: str, given: dict[str, str]) -> str:
        choice = self.random.choice
        if name in given:
            return given[name]
        if name in ("new", "new2"):
            given[name] = self.new()
            return given[name]
        if "|" in name:
            return choice(name.split("|"))
        return choice(WORDS[name])


def programs(count: int, seed: str) -> list[list[str]]:
    return [Writer(seed, number).program() for number in range(count)]
