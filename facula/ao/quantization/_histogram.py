"""An observer that keeps a histogram and chooses the range whose rounding errors are least.

The search: the outermost bins are given up step by step, on the side where the next hundred-thousandth of all values lets go of
more bins, for as long as the sum of squared errors falls. The error of a bin is that of its values, spread evenly, from the
middles of the levels that they fall into, so values outside the range count with their distance from the last level.
"""

from __future__ import annotations

import bisect
import itertools
import warnings
from typing import TYPE_CHECKING

import facula

from ._observer_base import EPS, UniformQuantizationObserverBase, refuse_dynamic, refuse_scheme
from .utils import is_per_tensor

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

_STEP = 1e-5


class HistogramObserver(UniformQuantizationObserverBase):
    """Keeps a histogram of all values seen; the levels are those with the least sum of squared rounding errors.

    Args:
        bins: of the histogram.
        dtype, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, kwargs: as for
            `UniformQuantizationObserverBase`.
        qscheme: per_tensor_affine or per_tensor_symmetric.

    Errors: NotImplementedError for schemes per channel, and for is_dynamic.

    Example::

        >>> from torch.ao.quantization import HistogramObserver
        >>> observer = HistogramObserver(bins=64)
        >>> _ = observer(torch.linspace(0, 1, 1000))
        >>> scale, zero_point = observer.calculate_qparams()
        >>> 0.0038 < scale.item() < 0.004, zero_point.item()
        (True, 0)
    """

    histogram: facula.Tensor
    min_val: facula.Tensor
    max_val: facula.Tensor

    def __init__(self, bins: int = 2048, dtype: facula.dtype = facula.quint8, qscheme: Any = facula.per_tensor_affine,
                 reduce_range: bool = False, quant_min: int | None = None, quant_max: int | None = None,
                 factory_kwargs: dict[str, Any] | None = None, eps: float = EPS, is_dynamic: bool = False,
                 **kwargs: Any) -> None:  # fmt: skip
        refuse_scheme(self, qscheme, is_per_tensor)
        refuse_dynamic(self, is_dynamic)
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        self.bins = bins
        where = factory_kwargs or {}
        self.register_buffer("histogram", facula.zeros(bins, **where))
        self.register_buffer("min_val", facula.tensor(float("inf"), **where))
        self.register_buffer("max_val", facula.tensor(float("-inf"), **where))
        self.dst_nbins: Any = 2 ** (8 * facula.empty(0, dtype=getattr(dtype, "_levels", dtype)).element_size())
        self.upsample_rate = 16

    def _is_empty(self):
        return self.min_val == float("inf") or self.max_val == float("-inf")

    def reset_histogram(self, x: Tensor, min_val: Tensor, max_val: Tensor) -> None:
        """Starts anew with the values of x, which lie between min_val and max_val.

        >>> from torch.ao.quantization import HistogramObserver
        >>> observer = HistogramObserver(bins=4)
        >>> observer.reset_histogram(torch.tensor([0.0, 1.0, 4.0]), torch.tensor(0.0), torch.tensor(4.0))
        >>> observer.histogram
        tensor([1., 1., 0., 1.])
        """
        self._set("min_val", min_val)
        self._set("max_val", max_val)
        self._set("histogram", self._histc(x, min_val, max_val))

    def _histc(self, x, low, high):
        return facula.histc(x, self.bins, min=low.item(), max=high.item()).to(self.histogram.dtype)

    def _on_other_bins(self, low, high):
        """The histogram with its values, spread evenly in each bin, in bins from low to high."""
        fine = self.bins * self.upsample_rate
        start, end = self.min_val.item(), self.max_val.item()
        weights = self.histogram.repeat_interleave(self.upsample_rate) / self.upsample_rate
        middles = facula.linspace(start, end, fine + 1)[:-1] + 0.5 * ((self.max_val - self.min_val) / fine)
        borders = facula.linspace(low.item(), high.item(), self.bins + 1)
        places = (facula.bucketize(middles, borders, right=True) - 1).clamp_(0, self.bins - 1)
        return facula.bincount(places, weights=weights, minlength=self.bins)

    def _combined(self, x, low, high):
        """The histogram, from low to high, of what was seen and x."""
        update = self._histc(x, low, high)
        if low == self.min_val and high == self.max_val:
            return self.histogram + update
        if self.min_val == self.max_val:  # all that was seen is one value
            return self._histc(self.min_val, low, high) * self.histogram.sum() + update
        return self._on_other_bins(low, high) + update

    def forward(self, x_orig: Tensor) -> Tensor:
        """Looks at the tensor and returns it."""
        x = x_orig.detach()
        if x.numel() == 0:
            return x_orig
        low, high = facula.aminmax(x)
        if low == float("-inf") or high == float("inf"):
            warnings.warn("HistogramObserver: infinite values of the input are left out", stacklevel=2)
            x = x[x.abs() != float("inf")]
            if x.numel() == 0:
                return x_orig
            low, high = facula.aminmax(x)
        if self._is_empty():
            self.reset_histogram(x, low, high)
            return x_orig
        low, high = facula.minimum(self.min_val, low), facula.maximum(self.max_val, high)
        self._set("histogram", self._combined(x, low, high).to(self.histogram.dtype))
        self._set("min_val", low)
        self._set("max_val", high)
        return x_orig

    def _error(self, first, last):
        """The sum of squared errors when the levels lie in the bins from first to last."""
        width = (self.max_val.item() - self.min_val.item()) / self.bins
        step = width * (last - first + 1) / self.dst_nbins
        if step == 0.0:
            return 0.0
        begin = (facula.arange(self.bins) - first) * width
        end = begin + width
        level_of_begin = facula.div(begin, step, rounding_mode="floor").clamp_(0, self.dst_nbins - 1)
        level_of_end = facula.div(end, step, rounding_mode="floor").clamp_(0, self.dst_nbins - 1)
        half = step / 2
        from_middle = begin - (level_of_begin + 0.5) * step
        to_middle = end - (level_of_end * step + half)
        # three parts of a bin: up to the end of its first level, whole levels, and the rest in its last level
        cubes = (half**3 - from_middle**3) + (level_of_end - level_of_begin - 1) * (2 * half**3) + (to_middle**3 + half**3)
        return (self.histogram / width * cubes / 3).sum().item()

    def _non_linear_param_search(self):
        """(least, greatest) value that gets a level."""
        sums = facula.cumsum(self.histogram.float(), 0)
        total, sums = self.histogram.sum().item(), sums.tolist()
        count = round(1 / _STEP) + 2
        lows = list(itertools.accumulate([0.0, *itertools.repeat(_STEP, count)]))
        highs = list(itertools.accumulate([1.0, *itertools.repeat(-_STEP, count)]))
        low_sums, high_sums = (
            (facula.tensor(shares, dtype=facula.float64) * total).float().tolist() for shares in (lows, highs)
        )
        left = right = 0  # steps taken at either end
        first, last = 0, self.bins - 1
        least = float("inf")
        while lows[left] < highs[right]:
            low = bisect.bisect_left(sums, low_sums[left + 1], first, last)
            high = max(bisect.bisect_right(sums, high_sums[right + 1], first, last + 1) - 1, first)
            begin, end = first, last
            if low - first > last - high:
                begin, left = low, left + 1
            else:
                end, right = high, right + 1
            if (begin, end) == (first, last):
                continue
            error = self._error(begin, end)
            if error > least:
                break
            least, first, last = error, begin, end
        width = (self.max_val - self.min_val) / self.bins
        return self.min_val + width * first, self.min_val + width * (last + 1)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """(scale, zero point), tensors of one element."""
        if self._is_empty():
            warnings.warn("calculate_qparams: nothing has been observed yet, so scale 1 and zero point 0", stacklevel=2)
            return facula.tensor([1.0]), facula.tensor([0])
        if self.bins != len(self.histogram):
            raise AssertionError(
                f"{type(self).__name__}: expected a histogram of bins={self.bins}, got {len(self.histogram)}"
            )
        return self._calculate_qparams(*self._non_linear_param_search())

    def extra_repr(self) -> str:
        """The least and the greatest value."""
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        version = local_metadata.get("version")
        for name, value in (("min_val", float("inf")), ("max_val", float("-inf"))):
            key = prefix + name
            if (version is None or version < 3) and key in state_dict and state_dict[key].shape == (0,):
                state_dict[key] = facula.tensor(value)  # how files say that nothing was seen
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)
