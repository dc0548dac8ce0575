"""Compute short-time Fourier transforms: `stft` and its inverse `istft`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from facula import _C
from facula._shared.autocast import in_dtype

from .settings import is_warn_always_enabled

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor


_warned = False


def _warn_of_no_window(op):
    """Say once that frames end abruptly; the sides of their spectra are then wide."""
    global _warned
    if not _warned or is_warn_always_enabled():
        _warned = True
        warnings.warn(f"{op}: without a window, frames end abruptly and their spectra leak (give window=, such as "
                      "torch.hann_window(win_length))", stacklevel=3)  # fmt: skip


def _window(op: str, window, win_length: int, n_fft: int, like):
    """Return the window in the middle of n_fft points; ones when none is given."""
    if not 0 < win_length <= n_fft:
        raise RuntimeError(f"{op}: win_length is positive and at most n_fft = {n_fft}, got {win_length}")
    if window is None:
        _warn_of_no_window(op)
        window = _C.ones(win_length, dtype=like.dtype.to_real(), device=like.device)
    elif window.dim() != 1 or window.shape[0] != win_length:
        raise RuntimeError(f"{op}: expected a window of win_length = {win_length} points, got shape {tuple(window.shape)}")
    left = (n_fft - win_length) // 2
    return _C.constant_pad_nd(window, [left, n_fft - win_length - left]) if win_length < n_fft else window


@in_dtype(_C.float32, ("cpu",))
def stft(input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None,
         center: bool = True, pad_mode: str = "reflect", normalized: bool = False, onesided: bool | None = None,
         return_complex: bool | None = None, align_to_window: Any = None) -> Tensor:  # fmt: skip
    """Return the Fourier transforms of windowed frames of a signal: how its frequencies change with time.

    Args:
        input: the signal, (time) or (batch, time), floating or complex.
        n_fft: samples of a frame.
        hop_length: samples from one frame to the next; None for n_fft // 4.
        win_length: samples of the window, which lies in the middle of the frame; None for n_fft.
        window: (win_length), what frames are multiplied by; None for ones.
        center: whether frames are centered on their samples, the signal padded by n_fft // 2 at both ends.
        pad_mode: how it is padded, a mode of nn.functional.pad.
        normalized: whether the transforms are divided by the root of n_fft.
        onesided: whether only the frequencies 0 to n_fft // 2 are given; None for that where signal and window are real.
        return_complex: True for a complex result, False for real and imaginary parts in a last dimension of 2; needed for real
            signals.
        align_to_window: only with center=False.

    Returns: (frequencies, frames), with a batch in front where the signal has one.

    Errors: RuntimeError for other shapes and dtypes, a missing return_complex, frames longer than the signal, and onesided
    transforms of complex numbers.

    >>> torch.stft(torch.ones(16), n_fft=8, return_complex=True).shape
    torch.Size([5, 9])
    """
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    if not (input.is_floating_point() or input.is_complex()) or input.dim() not in (1, 2):
        raise RuntimeError(
            f"stft: expected a 1-D or 2-D floating point or complex signal, got {input.dtype} of shape {tuple(input.shape)}"
        )
    if return_complex is None and not (input.is_complex() or (window is not None and window.is_complex())):
        raise RuntimeError("stft: the return_complex parameter is required for real signals, got None")
    if hop_length <= 0:
        raise RuntimeError(f"stft: hop_length is positive, got {hop_length}")
    window = _window("stft", window, win_length, n_fft, input)
    if center:
        if align_to_window is not None:
            raise RuntimeError(f"stft: align_to_window goes with center=False, got {align_to_window}")
        signal = input if input.dim() == 2 else input.unsqueeze(0)
        signal = _C.nn_functional.pad(signal.unsqueeze(0), [n_fft // 2, n_fft // 2], mode=pad_mode).squeeze(0)
        input = signal if input.dim() == 2 else signal.squeeze(0)
    if not 0 < n_fft <= input.shape[-1]:
        raise RuntimeError(
            f"stft: n_fft is positive and at most the length {input.shape[-1]} of the signal, got {n_fft}"
        )
    frames = input.unfold(-1, n_fft, hop_length) * window
    is_complex = frames.is_complex()
    onesided = not is_complex if onesided is None else onesided
    if onesided and is_complex:
        raise RuntimeError("stft: complex signals and windows have no one-sided transform, got onesided=True")
    norm = "ortho" if normalized else None
    spectrum = _C.fft.rfft(frames, norm=norm) if onesided else _C.fft.fft(frames, norm=norm)
    result = spectrum.transpose(-1, -2)
    return result if return_complex or return_complex is None else _C.view_as_real(result)


def istft(input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None,
          center: bool = True, normalized: bool = False, onesided: bool | None = None, length: Any = None,
          return_complex: bool = False) -> Tensor:  # fmt: skip
    """Return the signal whose `stft` is `input`: overlapping frames are averaged, weighted by the window.

    Args:
        input: complex, (frequencies, frames) or (batch, frequencies, frames).
        n_fft, hop_length, win_length, window, center, normalized, onesided: as stft was given them; onesided None for what the
            number of frequencies says.
        length: samples of the signal; None for what the frames say.
        return_complex: whether the signal is complex.

    Returns: the signal, (time) or (batch, time).

    Errors: RuntimeError for other shapes, a wrong number of frequencies, and windows that add up to zero somewhere.

    >>> x = torch.arange(16.)
    >>> window = torch.hann_window(8)
    >>> y = torch.istft(torch.stft(x, 8, window=window, return_complex=True), 8, window=window)
    >>> torch.allclose(x, y, atol=1e-5)
    True
    """
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    if not input.is_complex() or input.dim() not in (2, 3) or input.numel() == 0:
        raise RuntimeError(
            f"istft: a complex tensor (..., frequencies, frames), got {input.dtype} of shape {tuple(input.shape)}"
        )
    if onesided is None:
        onesided = input.shape[-2] != n_fft
    expected = n_fft // 2 + 1 if onesided else n_fft
    if input.shape[-2] != expected:
        raise RuntimeError(
            f"istft: {expected} frequencies for n_fft = {n_fft} and onesided={onesided}, got {input.shape[-2]}"
        )
    if not 0 < hop_length <= win_length:
        raise RuntimeError(f"istft: hop_length is positive and at most win_length = {win_length}, got {hop_length}")
    window = _window("istft", window, win_length, n_fft, input)
    spectrum = (input if input.dim() == 3 else input.unsqueeze(0)).transpose(-1, -2)
    norm = "ortho" if normalized else None
    if return_complex:
        frames = _C.fft.ifft(spectrum, norm=norm)
    else:
        frames = _C.fft.irfft(spectrum[..., : n_fft // 2 + 1], n=n_fft, norm=norm)
    signal = _overlapped(frames * window, hop_length)
    weight = _overlapped((window * window).expand(1, frames.shape[1], n_fft), hop_length)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else signal.shape[-1] - (n_fft // 2 if center else 0)
    signal, weight = signal[:, start:end], weight[:, start:end]
    if not _C._recording() and not weight.abs().min().item() > 1e-11:  # a program does not look at values
        raise RuntimeError(
            "istft: overlapping windows must add up to a number above 0 everywhere, got 0 somewhere (is hop_length too long?)"
        )
    signal = signal / weight
    if length is not None and signal.shape[-1] < length:
        text = f"istft: the frames hold {signal.shape[-1]} samples, fewer than length={length}; zeros follow them"
        warnings.warn(text, stacklevel=2)
        signal = _C.constant_pad_nd(signal, [0, length - signal.shape[-1]])
    return signal if input.dim() == 3 else signal.squeeze(0)


def _overlapped(frames, hop_length: int):
    """Return the frames (batch, count, size) added up at distances of hop_length: (batch, time)."""
    batch, count, size = frames.shape
    places = (_C.arange(count).unsqueeze(1) * hop_length + _C.arange(size)).reshape(-1)
    total = _C.zeros(batch, (count - 1) * hop_length + size, dtype=frames.dtype, device=frames.device)
    return total.index_add(1, places, frames.reshape(batch, -1))



