"""Describe a cluster for the model of costs."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass

_UNITS = {
    "": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9,
    "B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "Mbit": 1e6 / 8, "Gbit": 1e9 / 8, "Tbit": 1e12 / 8,
}  # fmt: skip


def quantity(text: str) -> float:
    """Return the seconds of "5us", bytes of "25GB" or "200Gbit"; a bare number is seconds or bytes.

    Args:
        text: a number and a unit; "/s" behind it is left out. ValueError for anything else.

    >>> from torch.distributed.plan.cluster import quantity
    >>> quantity("2ms"), quantity("25GB/s"), quantity("200Gbit")
    (0.002, 25000000000.0, 25000000000.0)
    """
    found = re.fullmatch(r"([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z]*)(?:/s)?", text.strip())
    if found is None or found[2] not in _UNITS or found[1].count(".") > 1:
        raise ValueError(f"plan: expected a number and one of {', '.join(u for u in _UNITS if u)}, got {text!r}")
    return float(found[1]) * _UNITS[found[2]]


@dataclass(frozen=True)
class Link:
    """Describe the connection of two ranks.

    Attributes:
        latency: seconds that a message takes whatever its size.
        bandwidth: bytes a second.

    Errors: ValueError for a latency below 0, and a bandwidth that is not above 0.

    >>> from torch.distributed.plan import Link
    >>> link = Link(latency=1e-6, bandwidth=1e9)
    >>> link.seconds(1000), link.seconds(1000, sharers=2)
    (2e-06, 3e-06)
    """

    latency: float
    bandwidth: float

    def __post_init__(self) -> None:
        if not self.latency >= 0 or not self.bandwidth > 0:
            raise ValueError(f"Link: expected a latency of at least 0 and a bandwidth above 0, got {self}")

    def seconds(self, nbytes: float, sharers: int = 1) -> float:
        """Return the seconds of one message, when `sharers` ranks send at once over what they share: ``latency + nbytes *
        sharers / bandwidth``.

        Args:
            nbytes: its size.
            sharers: how many ranks send.
        """
        return self.latency + nbytes * sharers / self.bandwidth


@dataclass(frozen=True)
class Cluster:
    """Describe a cluster whose nodes have equally many ranks.

    Attributes:
        ranks_per_node: how many ranks share a node.
        inside: between two ranks of a node; every rank has this bandwidth for itself.
        between: between two nodes; all ranks of a node share this bandwidth.
        call: seconds that every collective costs before anything moves.
        agree: whether ranks compare what they call first, as Facula's do: one more all_reduce of 16 bytes.
        reduce: seconds to add one received byte.
        copy: seconds to copy one byte in a rank's memory: into buckets, and out of gathered parameters.
        switch: seconds that a message waits for a processor, where a node has fewer of them than ranks.
        processors: how many ranks of a node can run at once; None when a rank has devices of its own.
        overlap: share of a collective under way that takes nothing from the computation beside it.
        measured: [kind, ranks, bytes, seconds] of the collectives that it was fitted to.

    Errors: ValueError for times below 0, an overlap above 1, and nodes without ranks or processors.

    >>> import tempfile
    >>> from torch.distributed.plan import Cluster, Link
    >>> cluster = Cluster(ranks_per_node=8, between=Link(5e-6, 25e9), processors=2)
    >>> cluster.crowding(4)
    2.0
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cluster.save(f"{folder}/cluster.json")
    ...     Cluster.load(f"{folder}/cluster.json") == cluster
    True
    """

    ranks_per_node: int = 8
    inside: Link = Link(3e-6, 100e9)
    between: Link = Link(5e-6, 25e9)
    call: float = 2e-6
    agree: bool = True
    reduce: float = 0.0
    copy: float = 0.0
    switch: float = 0.0
    processors: float | None = None
    overlap: float = 1.0
    measured: list[Any] = field(default_factory=list, compare=False)

    def __post_init__(self) -> None:
        if self.ranks_per_node < 1 or not 0 <= self.overlap <= 1 or min(self.call, self.reduce, self.copy, self.switch) < 0:
            raise ValueError(f"Cluster: expected a rank on a node, times of at least 0, overlap from 0 to 1, got {self}")
        if self.processors is not None and not self.processors > 0:
            raise ValueError(f"Cluster: processors must be above 0 or None, got {self.processors}")

    def crowding(self, ranks: int) -> float:
        """Return how many times longer everything takes, because ranks of a node wait for processors.

        Args:
            ranks: how many ranks there are in all.
        """
        return 1.0 if self.processors is None else max(1.0, min(ranks, self.ranks_per_node) / self.processors)

    def save(self, path: Any) -> None:
        """Write it as JSON.

        Args:
            path: the file.
        """
        Path(path).write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Any) -> Cluster:
        """Read what `save` wrote.

        Args:
            path: the file. ValueError where it holds anything else.

        Returns: the Cluster.
        """
        try:
            fields = json.loads(Path(path).read_text())
            links = {name: Link(**fields[name]) for name in ("inside", "between") if name in fields}
            return cls(**{**fields, **links})
        except (TypeError, ValueError, KeyError) as error:
            raise ValueError(f"{path}: a cluster, as --measure writes it, is expected, got {error}") from error
