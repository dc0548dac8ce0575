"""Methods of Tensor that are functions of the top level written in Python, whose files are loaded on the first call."""

from __future__ import annotations

from . import _C
from ._tensor import _overridable


def unique(self, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements in ascending order, or the distinct slices along `dim`.

    Args:
        sorted: the result is in order whatever this says.
        return_inverse: whether also the place of each element (slice) among them is wanted.
        return_counts: whether also how often each occurs is wanted.
        dim: the dimension of the slices; None for elements.

    Returns the distinct ones; or a tuple of them, the places and the counts (int64), as far as they are wanted.

    >>> torch.tensor([3, 1, 3]).unique(return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    import facula

    return facula.unique(self, sorted, return_inverse, return_counts, dim)


def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    """The first of every run of equal neighbours, of the flattened tensor or among its slices along `dim`.

    Args:
        return_inverse: whether also the run of each element (slice) is wanted.
        return_counts: whether also the lengths of the runs are wanted.
        dim: the dimension of the slices; None for elements.

    Returns the first ones; or a tuple of them, the runs and the lengths (int64), as far as they are wanted.

    >>> torch.tensor([1, 1, 2, 1]).unique_consecutive()
    tensor([1, 2, 1])
    """
    import facula

    return facula.unique_consecutive(self, return_inverse, return_counts, dim)


def stft(
    self, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False,
    onesided=None, return_complex=None, align_to_window=None,
):  # fmt: skip
    """Fourier transforms of windowed frames of this signal, (time) or (batch, time): how its frequencies change.

    Args:
        n_fft: samples of a frame.
        hop_length: samples from one frame to the next; None for n_fft // 4.
        win_length: samples of the window, which lies in the middle of the frame; None for n_fft.
        window: (win_length), what frames are multiplied by; None for ones.
        center: whether frames are centred on their samples, the signal padded by n_fft // 2 at both ends.
        pad_mode: how it is padded, a mode of nn.functional.pad.
        normalized: whether the transforms are divided by the root of n_fft.
        onesided: whether only the frequencies 0 to n_fft // 2 are given; None for that where signal and window are real.
        return_complex: True for a complex result, False for real and imaginary parts in a last dimension of 2; needed for
            real signals.
        align_to_window: only with center=False.

    Returns (frequencies, frames), with a batch in front where the signal has one.

    Errors: RuntimeError for other shapes, a missing return_complex, and frames longer than the signal.

    >>> torch.ones(16).stft(8, return_complex=True).shape
    torch.Size([5, 9])
    """
    import facula

    return facula.stft(
        self, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex, align_to_window
    )


def istft(
    self, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None, length=None,
    return_complex=False,
):  # fmt: skip
    """The signal whose `stft` is this: overlapping frames are averaged, weighted by the window.

    The tensor is complex, (frequencies, frames) or (batch, frequencies, frames).

    Args:
        n_fft, hop_length, win_length, window, center, normalized, onesided: as stft was given them; onesided None for what
            the number of frequencies says.
        length: samples of the signal; None for what the frames say.
        return_complex: whether the signal is complex.

    Returns the signal, (time) or (batch, time).

    Errors: RuntimeError for other shapes, a wrong number of frequencies, and windows that add up to zero somewhere.

    >>> x, window = torch.arange(16.), torch.hann_window(8)
    >>> y = x.stft(8, window=window, return_complex=True).istft(8, window=window)
    >>> torch.allclose(x, y, atol=1e-5)
    True
    """
    import facula

    return facula.istft(self, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex)


def lu(self, pivot=True, get_infos=False):
    """The LU factors of these matrices, (..., m, n), in one matrix, and the row exchanges: ``P L U = A``.

    Args:
        pivot: whether rows are exchanged; without, only on a GPU.
        get_infos: whether a third result tells for each matrix 0, or the place of the first pivot that is zero.

    Returns a tuple: L below the diagonal and U above, (..., m, n); the exchanges counted from 1, int32, (..., min(m, n)).

    Errors: RuntimeError for a singular matrix without get_infos, and for pivot=False on the CPU.

    >>> factors, exchanges = torch.tensor([[4., 2.], [2., 3.]]).lu()
    >>> factors
    tensor([[4.0000, 2.0000],
            [0.5000, 2.0000]])
    """
    import facula

    return facula.lu(self, pivot, get_infos)


def smm(self, mat):
    """The product of this sparse matrix, (m, k), and a strided one as a COO tensor.

    Args:
        mat: the strided matrix, (k, n).

    Errors: RuntimeError for sizes that do not fit.

    >>> a = torch.tensor([[0., 2.], [0., 0.]]).to_sparse()
    >>> a.smm(torch.tensor([[1.], [3.]])).to_dense()
    tensor([[6.],
            [0.]])
    """
    import facula

    return facula.smm(self, mat)


def sspaddmm(self, mat1, mat2, *, beta=1, alpha=1):
    """``beta * self + alpha * (mat1 @ mat2)`` as a COO tensor.

    Args:
        mat1: a sparse matrix.
        mat2: a strided matrix.
        beta, alpha: the factors.

    Errors: RuntimeError for sizes that do not fit.

    >>> a = torch.tensor([[0., 2.], [0., 0.]]).to_sparse()
    >>> a.sspaddmm(a, torch.ones(2, 2)).to_dense()
    tensor([[2., 4.],
            [0., 0.]])
    """
    import facula

    return facula.sspaddmm(self, mat1, mat2, beta=beta, alpha=alpha)


_IN_PYTHON = (unique, unique_consecutive, stft, istft, lu, smm, sspaddmm)
_C._install_methods({f.__name__: _overridable(f) for f in _IN_PYTHON})
