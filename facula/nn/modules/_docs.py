"""Docstrings of layers that exist in one, two and three dimensions: one text for each family.

`@described(TEXT, n)` fills in the shapes of n dimensions. tests/test_docs.py runs the examples and asks that every
argument of a constructor is named.
"""

from __future__ import annotations

import re

_SIZES = {1: "L", 2: "H, W", 3: "D, H, W"}


def described(text: str, n: int, **words: str):
    """Give a class the docstring `text` for `n` dimensions.

    In the text stand for n = 2: {n} 2; {sizes} "H, W"; {batched} "(N, C, H, W)"; {single} "(C, H, W)"; {fours} and {eights}
    "4, 4" and "8, 8"; and whatever `words` names.
    """

    def numbers(value):
        return ", ".join([str(value)] * n)

    def decorate(cls):
        sizes = _SIZES[n]
        cls.__doc__ = text.format(
            n=n, sizes=sizes, batched=f"(N, C, {sizes})", single=f"(C, {sizes})", name=cls.__name__, fours=numbers(4),
            eights=numbers(8), **words,
        )  # fmt: skip
        return cls

    return decorate


def lazy(text: str, n: int, eager: str, unknown: str, call: str, **words: str):
    """Give a lazy class a docstring with the arguments of the docstring `text` of `eager`, without `unknown`.

    `call` is what the example gives to the constructor.
    """
    (arguments,) = re.findall(r"    Args:\n(?:     .*\n)+", text)
    arguments = re.sub(rf"        {unknown}: .*\n(?:         .*\n)*", "", arguments)
    return described(LAZY.replace("{arguments}", arguments), n, eager=eager, unknown=unknown, call=call, **words)


CONV = """Convolution (cross-correlation) over {n} dimensions.

    Formula:
        y[o, i] = bias[o] + sum(weight[o, c, k] * x[c, stride * i + dilation * k - padding] for c in channels for k in window)
        L_out = (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1

    Args:
        in_channels: C_in, channels of the input.
        out_channels: C_out, channels of the output, each from a kernel of its own.
        kernel_size: the size of the window, a number or one for each dimension.
        stride: the step of the window.
        padding: elements added at both ends of each dimension, a number or one for each; 'valid' for none, 'same' for as
            many as keep the size (with stride 1).
        dilation: the step between the elements of a window.
        groups: into how many blocks the channels are cut, which are convolved separately; divides both numbers of channels.
        bias: whether a learned number is added to each output channel.
        padding_mode: what is added: 'zeros', 'reflect', 'replicate' or 'circular'.
        device, dtype: of the parameters.

    Shapes: input (N, C_in, {sizes}) or (C_in, {sizes}); output the same with C_out, and L_out for a size L. ``weight`` is
    (C_out, C_in / groups, *kernel_size) and ``bias`` (C_out), both drawn uniformly within 1 / sqrt(C_in / groups * elements of
    a window).

    Errors: ValueError for channels that groups does not divide, for 'same' with a stride, and for unknown words.

    >>> conv = nn.{name}(3, 16, kernel_size=3, padding=1)
    >>> conv(torch.randn(2, 3, {eights})).shape
    torch.Size([2, 16, {eights}])
    """

CONV_TRANSPOSE = """The transpose of a convolution over {n} dimensions: what `Conv{n}d` does to gradients, not its inverse.

    Formula: L_out = (L - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1

    Args:
        in_channels: C_in, channels of the input.
        out_channels: C_out, channels of the output.
        kernel_size: the window of the convolution whose transpose this is, a number or one for each dimension.
        stride: the step of that convolution.
        padding: what that convolution adds at both ends.
        output_padding: elements added at one end of the output, below the stride: it settles which of the sizes that a strided
            convolution maps to the same size is meant.
        groups: into how many blocks the channels are cut; divides both numbers of channels.
        bias: whether a learned number is added to each output channel.
        dilation: the step between the elements of its window.
        padding_mode: 'zeros' only.
        device, dtype: of the parameters.

    Shapes: input (N, C_in, {sizes}) or (C_in, {sizes}); output the same with C_out, and L_out for a size L; a call may name the
    wanted sizes as ``output_size``. ``weight`` is (C_in, C_out / groups, *kernel_size).

    Errors: ValueError for channels that groups does not divide, for another padding_mode, and, when called, for an
    ``output_size`` that no output padding gives.

    >>> up = nn.{name}(16, 3, kernel_size=2, stride=2)
    >>> up(torch.randn(2, 16, {fours})).shape
    torch.Size([2, 3, {eights}])
    """

LAZY = """`{eager}` that takes {unknown} from its first input; from then on it is a `{eager}`.

{arguments}
    Until then parameters have no shape: move and convert the module as usual, but make the optimizer after a first call.

    >>> layer = nn.{name}({call})
    >>> _ = layer(torch.randn(2, 3, {eights}))
    >>> type(layer).__name__, layer.{unknown}
    ('{eager}', 3)
    """

MAX_POOL = """The maximum of each window over {n} dimensions.

    Formula: L_out = (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1

    Args:
        kernel_size: of the window, a number or one for each dimension.
        stride: the step of the window. Default: kernel_size.
        padding: minus infinity added at both ends, at most half the window.
        dilation: the step between the elements of a window.
        return_indices: whether to return also where the maxima were, for `MaxUnpool{n}d`.
        ceil_mode: whether sizes are rounded up, so that a last window may reach over the end.

    Shapes: input {batched} or {single}; output the same with L_out for a size L.

    >>> nn.{name}(2)(torch.randn(2, 3, {eights})).shape
    torch.Size([2, 3, {fours}])
    """

MAX_UNPOOL = """A partial inverse of `MaxPool{n}d`: values go back to where the maxima were, with zeros everywhere else.

    Args:
        kernel_size, stride, padding: those of the pooling.

    Shapes: called with the pooled values {batched} or {single}, the indices that came with them, and, where several sizes
    pool to the same, the wanted ``output_size``.

    >>> pooled, indices = nn.MaxPool{n}d(2, return_indices=True)(torch.randn(2, 3, {eights}))
    >>> nn.{name}(2)(pooled, indices).shape
    torch.Size([2, 3, {eights}])
    """

AVG_POOL = """The average of each window over {n} dimensions.

    Formula: L_out = (L + 2 * padding - kernel_size) // stride + 1

    Args:
        kernel_size: of the window, a number or one for each dimension.
        stride: the step of the window. Default: kernel_size.
        padding: zeros added at both ends, at most half the window.
        ceil_mode: whether sizes are rounded up.
        count_include_pad: whether the added zeros count in the divisor.{divisor}

    Shapes: input {batched} or {single}; output the same with L_out for a size L.

    >>> nn.{name}(2)(torch.ones(1, 1, {fours})).unique()
    tensor([1.])
    """

AVG_POOL_DIVISOR = """
        divisor_override: what to divide by in the place of the number of elements."""

ADAPTIVE_POOL = """The {what} of windows over {n} dimensions that are chosen so that the output has a given size.

    Args:
        output_size: the sizes of the output, a number or one for each dimension; None for that of the input.{indices}

    Shapes: input {batched} or {single}; output the same with output_size in the last {n}.

    >>> nn.{name}(4)(torch.randn(2, 3, {eights})).shape
    torch.Size([2, 3, {fours}])
    """

ADAPTIVE_INDICES = """
        return_indices: whether to return also where the maxima were."""

FRACTIONAL_POOL = """The maximum of windows over {n} dimensions whose places are drawn at random (Graham 2014).

    Args:
        kernel_size: of the windows, a number or one for each dimension.
        output_size: the sizes of the output; or
        output_ratio: output sizes over input sizes, in (0, 1). One of the two is given.
        return_indices: whether to return also where the maxima were.
        _random_samples: the places of the windows, (N, C, {n}) numbers in [0, 1); drawn anew at each call when None.

    Shapes: input {batched} or {single}.

    Errors: ValueError for both or neither of output_size and output_ratio, and for a ratio outside (0, 1).

    >>> nn.{name}(2, output_ratio=0.5)(torch.randn(2, 3, {eights})).shape
    torch.Size([2, 3, {fours}])
    """

LP_POOL = """Power-average pooling over {n} dimensions: the norm of each window.

    Formula: y = sum(x[k] ** norm_type for k in window) ** (1 / norm_type)

    Args:
        norm_type: the power; 1 gives sums, and large numbers come near the maximum.
        kernel_size: of the window, a number or one for each dimension.
        stride: the step of the window. Default: kernel_size.
        ceil_mode: whether sizes are rounded up.

    Shapes: input {batched} or {single}.

    >>> nn.{name}(1, 2)(torch.ones(1, 1, {fours})).unique().item() == 2 ** {n}
    True
    """

PAD = """Pads the last {n} dimensions {how}.

    Args:
        padding: elements added at every end, or (before, after) for the last dimension, then for the last but one, and so on:
            {ends} numbers. Negative ones cut off.{value}

    Shapes: input {batched} or {single}.

    >>> nn.{name}({example})(torch.randn(1, 1, {fours})).shape
    torch.Size([1, 1, {padded}])
    """

PAD_VALUE = """
        value: what is added."""

BATCH_NORM = """Batch normalisation: each channel is shifted to mean 0 and scaled to variance 1 over batch and positions.

    Formula:
        y = (x - mean) / sqrt(var + eps) * weight + bias
        running_mean = (1 - momentum) * running_mean + momentum * mean  # in training

    In training mean and variance are those of the batch (the biased variance), in evaluation the running ones (Ioffe, Szegedy
    2015).

    Args:
        num_features: C, the number of channels.
        eps: added to the variance.
        momentum: the share of a new batch in the running statistics; None for the mean over all batches.
        affine: whether weight and bias are learned; without it there are none.
        track_running_stats: whether to keep running statistics for evaluation; without them batches always use their own.
        device, dtype: of parameters and statistics.
        bias: whether there is a bias beside the weight.

    Shapes: input {shapes}; output the same.

    Errors: ValueError for another number of dimensions, and in training for a single value per channel.

    >>> y = nn.{name}(3)(torch.randn(16, 3, {fours}) * 5 + 1)
    >>> y.mean().abs().item() < 1e-5, round(y.std().item(), 1)
    (True, 1.0)
    """

INSTANCE_NORM = """Instance normalisation: each channel of each sample gets mean 0 and variance 1 over its positions.

    Formula: y = (x - mean) / sqrt(var + eps) * weight + bias

    Args:
        num_features: C, the number of channels.
        eps: added to the variance.
        momentum: the share of a new batch in the running statistics.
        affine: whether a weight and a bias are learned for each channel.
        track_running_stats: whether to keep running statistics, which evaluation then uses.
        device, dtype: of parameters and statistics.
        bias: whether there is a bias beside the weight.

    Shapes: input {batched} or {single}; output the same.

    >>> y = nn.{name}(3)(torch.randn(2, 3, {fours}) * 5 + 1)
    >>> y[0, 0].mean().abs().item() < 1e-5
    True
    """

CHANNEL_DROPOUT = """In training, sets whole channels to zero with probability p and scales the others by 1 / (1 - p).

    Args:
        p: the probability that a channel is dropped, in [0, 1].
        inplace: whether the input itself is changed.

    Shapes: input {shapes}; output the same.

    Errors: ValueError for p outside [0, 1].

    >>> y = nn.{name}(0.5)(torch.ones(4, 8, {fours}))
    >>> sorted(set(y.amax(dim=tuple(range(2, y.dim()))).flatten().tolist()) | {{0.0, 2.0}})
    [0.0, 2.0]
    """
