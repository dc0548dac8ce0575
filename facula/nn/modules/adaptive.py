"""Define AdaptiveLogSoftmaxWithLoss, a softmax over many classes of very different frequency."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

if TYPE_CHECKING:
    from typing import Any

    import facula
    from facula import Tensor
    from facula.types import Device

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Compute a log-softmax over very many classes of very different frequency (Grave et al. 2017).

    The head has the frequent classes and one entry for each cluster of rarer ones; a cluster is computed, with fewer features,
    only for the samples whose target it holds.

    Args:
        in_features: the size of the input.
        n_classes: the number of classes, which are numbered from frequent to rare.
        cutoffs: the first class of each cluster, increasing, each in [1, n_classes - 1].
        div_value: the factor by which clusters shrink: cluster i has in_features // div_value ** (i + 1) features.
        head_bias: if True, add a learned bias in the head.
        device, dtype: the device and the dtype of the parameters.

    Shapes: called with input (N, in_features) and target (N,), or (in_features,) and (). Returns a named tuple:
    ``output``, the log-probability of each target, and ``loss``, minus their mean.

    Errors: ValueError for other cutoffs; RuntimeError, when called, for shapes that do not fit and for a class that does
    not exist.

    >>> layer = nn.AdaptiveLogSoftmaxWithLoss(16, 100, cutoffs=[10, 50])
    >>> result = layer(torch.randn(4, 16), torch.tensor([0, 20, 60, 99]))
    >>> result.output.shape, torch.equal(result.loss, -result.output.mean())
    (torch.Size([4]), True)
    """

    in_features: int
    n_classes: int
    cutoffs: list[int]
    div_value: float
    head_bias: bool
    head: Linear
    tail: ModuleList

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Device = None,
        dtype: facula.dtype | None = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        increasing = all(a < b for a, b in zip(cutoffs, cutoffs[1:]))
        whole = all(int(c) == c for c in cutoffs)
        if not cutoffs or not increasing or not whole or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1:
            raise ValueError(
                "AdaptiveLogSoftmaxWithLoss: cutoffs must be increasing integers between 1 and n_classes - 1 "
                f"({n_classes - 1}), got {cutoffs}"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size: int = self.cutoffs[0]
        self.n_clusters: int = len(self.cutoffs) - 1
        self.head_size: int = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            width = int(in_features // (div_value ** (i + 1)))
            classes = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, width, bias=False, device=device, dtype=dtype),
                    Linear(width, classes, bias=False, device=device, dtype=dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Draw new weights in the head and in all clusters.

        >>> nn.AdaptiveLogSoftmaxWithLoss(16, 100, cutoffs=[10]).reset_parameters()
        """
        self.head.reset_parameters()
        for narrow, classify in self.tail:
            narrow.reset_parameters()
            classify.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> Any:
        """Return (log-probability of each target, their negative mean) for inputs (N, in_features) or
        (in_features,).
        """
        if target_.dim() not in (0, 1) or input_.dim() != target_.dim() + 1:
            raise RuntimeError(
                "AdaptiveLogSoftmaxWithLoss: takes input (N, F) with target (N), or (F) with (), got "
                f"{tuple(input_.shape)} and {tuple(target_.shape)}"
            )
        if target_.dim() == 1 and input_.size(0) != target_.size(0):
            raise RuntimeError(
                f"AdaptiveLogSoftmaxWithLoss: expected as many targets as inputs ({input_.size(0)}), got "
                f"{target_.size(0)}"
            )
        is_batched = target_.dim() > 0
        input = input_ if is_batched else input_.unsqueeze(0)
        target = target_ if is_batched else target_.unsqueeze(0)
        if target.numel() and not bool(((target >= 0) & (target < self.n_classes)).all()):
            raise RuntimeError(
                f"AdaptiveLogSoftmaxWithLoss: targets must be in [0, {self.n_classes - 1}], "
                f"got values in [{target.min().item()}, {target.max().item()}]"
            )
        output = input.new_zeros(target.size(0))
        # Where the head looks: the class itself, or the cluster that holds it.
        head_index = target.clone()
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            head_index.index_fill_(0, rows, self.shortlist_size + i)
            cluster = F.log_softmax(self.tail[i](input.index_select(0, rows)), dim=1)
            relative = target.index_select(0, rows) - low
            output.index_copy_(0, rows, cluster.gather(1, relative.unsqueeze(1)).squeeze(1))
        head = F.log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, head_index.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if is_batched else output.squeeze(0), loss)

    def _get_full_log_prob(self, input, head_output):
        """Return the log-probabilities (N, n_classes) given the head's output."""
        out = input.new_empty((head_output.size(0), self.n_classes))
        head = F.log_softmax(head_output, dim=1)
        out[:, : self.shortlist_size] = head[:, : self.shortlist_size]
        for i, (start, stop) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            cluster = F.log_softmax(self.tail[i](input), dim=1)
            out[:, start:stop] = cluster + head[:, self.shortlist_size + i].unsqueeze(1)
        return out

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log-probabilities of all classes.

        Args:
            input: (N, in_features).

        Returns: (N, n_classes).

        >>> layer = nn.AdaptiveLogSoftmaxWithLoss(16, 100, cutoffs=[10, 50])
        >>> layer.log_prob(torch.randn(4, 16)).exp().sum(1).allclose(torch.ones(4))
        True
        """
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """Return the most probable class of each sample; clusters are computed only for the samples that the head sends there.

        Args:
            input: (N, in_features).

        Returns: (N,), int64.

        >>> layer = nn.AdaptiveLogSoftmaxWithLoss(16, 100, cutoffs=[10, 50])
        >>> x = torch.randn(4, 16)
        >>> torch.equal(layer.predict(x), layer.log_prob(x).argmax(1))
        True
        """
        head_output = self.head(input)
        output = head_output.argmax(dim=1)
        in_tail = output >= self.shortlist_size
        if in_tail.any():
            output[in_tail] = self._get_full_log_prob(input[in_tail], head_output[in_tail]).argmax(dim=1)
        return output
