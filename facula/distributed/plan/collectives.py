"""Compute how long collectives take: their algorithms as rounds of messages, and the cost of rounds on a cluster.

An algorithm is a list of rounds. In a round every rank sends one message and receives one, and adds up what it received; the
round lasts as long as its slowest message. `nbytes` is always the size of the whole: of the tensor that is reduced or
broadcast, of what everybody has after all_gather, and of what everybody had before reduce_scatter.

    ring            neighbors pass on parts of 1/n: n - 1 rounds, the least bytes, the most rounds
    doubling        partners at distance 1, 2, 4, ...: log2(n) rounds, of everything for all_reduce
    halving         reduce_scatter and all_gather with partners: 2 log2(n) rounds, the least bytes
    tree            reduce to one rank and broadcast, by halves of the ranks
    hierarchical    scattered in each node, then as many collectives between nodes as a node has ranks, then gathered in nodes

Numbers of ranks that are not powers of two: ranks above the largest one hand what they have to a neighbor, and get the result
from it.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from .cluster import Cluster


class Round(NamedTuple):
    """Describe `times` messages one after another, of `bytes` each, of which `reduced` bytes are added to what a rank
    has.

    `inside` and `between` say how many ranks of a node send at once in a node and out of it; 0 when none does.

    >>> from torch.distributed.plan.collectives import Round
    >>> Round(times=1, bytes=100.0, reduced=0.0, inside=1, between=0).bytes
    100.0
    """

    times: int
    bytes: float
    reduced: float
    inside: int
    between: int


class Place(NamedTuple):
    """Describe where ranks are: `per_node` of them on each node. For each of the `ranks`, `sharers` ranks do the same
    at the same time.

    >>> from torch.distributed.plan.collectives import Place
    >>> Place(ranks=8, per_node=4)
    Place(ranks=8, per_node=4, sharers=1)
    """

    ranks: int
    per_node: int
    sharers: int = 1


def _pairs(place: Place, partners: str, distance: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (senders, receivers) of a round.

    "shift": every rank sends to the one `distance` further on; "fold": of the first ranks, every second to the one before it,
    so that a power of two is left; "xor": these, in their order, to each other.
    """
    n, power = place.ranks, 1 << _log2(place.ranks)
    extra = n - power
    if partners == "shift":
        return np.arange(n), (np.arange(n) + distance) % n
    if partners == "fold":
        return np.arange(1, 2 * extra, 2), np.arange(0, 2 * extra, 2)
    left = np.concatenate([np.arange(0, 2 * extra, 2), np.arange(2 * extra, n)])
    return left, left[np.arange(power) ^ distance]


@functools.lru_cache(maxsize=4096)
def _links(place: Place, partners: str, distance: int) -> tuple[int, int]:
    """Return (1 if a message stays in a node, the most that leave one node)."""
    here, there = _pairs(place, partners, distance)
    node = here // place.per_node
    leaves = node != there // place.per_node
    out = int(np.bincount(node[leaves]).max()) if leaves.any() else 0
    return int(not leaves.all()), out * place.sharers


def _round(place: Place, nbytes, reduced=0.0, distance=1, partners="xor", times=1) -> Round:
    return Round(times, nbytes, reduced, *_links(place, partners, distance))


def _log2(n: int) -> int:
    return n.bit_length() - 1


def _folded(place: Place, nbytes: float, rounds: list[Round]) -> list[Round]:
    """Return `rounds` of the largest power of two, and what the ranks above it do before and after."""
    if place.ranks == 1 << _log2(place.ranks):
        return rounds
    step = _round(place, nbytes, nbytes, partners="fold")
    return [step, *rounds, step._replace(reduced=0.0)]


def _ring(place: Place, nbytes: float, reduces: bool) -> list[Round]:
    part = nbytes / place.ranks
    return [_round(place, part, part * reduces, partners="shift", times=place.ranks - 1)] if place.ranks > 1 else []


def _distances(place: Place) -> list[int]:
    return [1 << k for k in range(_log2(place.ranks))]


def _all_reduce_doubling(place: Place, nbytes: float) -> list[Round]:
    return _folded(place, nbytes, [_round(place, nbytes, nbytes, d) for d in _distances(place)])


def _halve(place: Place, nbytes: float) -> list[Round]:
    """Let the largest parts go to the nearest ranks."""
    return [_round(place, nbytes / (2 * d), nbytes / (2 * d), d) for d in _distances(place)]


def _all_reduce_halving(place: Place, nbytes: float) -> list[Round]:
    down = _halve(place, nbytes)
    return _folded(place, nbytes, [*down, *(r._replace(reduced=0.0) for r in reversed(down))])


def _all_reduce_ring(place: Place, nbytes: float) -> list[Round]:
    return _ring(place, nbytes, True) + _ring(place, nbytes, False)


def _broadcast_tree(place: Place, nbytes: float) -> list[Round]:
    """Send to the farthest rank first; who has it sends it on: as soon as messages stay in nodes, every node has it once."""
    rounds = []
    for k in reversed(range((place.ranks - 1).bit_length())):
        far = 1 << k >= place.per_node
        rounds.append(Round(1, nbytes, 0.0, int(not far), place.sharers * far))
    return rounds


def _all_reduce_tree(place: Place, nbytes: float) -> list[Round]:
    down = _broadcast_tree(place, nbytes)
    return [*(r._replace(reduced=nbytes) for r in reversed(down)), *down]


def _broadcast_pieces(place: Place, nbytes: float) -> list[Round]:
    """Send halves of halves by a tree, which are then gathered around the ring."""
    tree = _broadcast_tree(place, nbytes)
    return [r._replace(bytes=nbytes / 2 ** (k + 1)) for k, r in enumerate(tree)] + _ring(place, nbytes, False)


def _all_gather_doubling(place: Place, nbytes: float) -> list[Round]:
    """Send to the rank at distance 1, 2, 4, ... all that one has: any number of ranks."""
    n, rounds = place.ranks, []
    for k in range((n - 1).bit_length()):
        have = 1 << k
        rounds.append(_round(place, nbytes / n * min(have, n - have), distance=have, partners="shift"))
    return rounds


def _reduce_scatter_halving(place: Place, nbytes: float) -> list[Round]:
    down = _halve(place, nbytes)
    if place.ranks == 1 << _log2(place.ranks):
        return down
    before, *_, after = _folded(place, nbytes, down)
    return [before, *down, after._replace(bytes=nbytes / place.ranks)]


def _split(place: Place) -> tuple[Place, Place]:
    """Return the ranks of one node, and one rank of each node, for which the others of its node do the same."""
    nodes = -(-place.ranks // place.per_node)
    return Place(place.per_node, place.per_node), Place(nodes, 1, place.per_node * place.sharers)


_FLAT = {
    "all_reduce": {
        "ring": _all_reduce_ring, "doubling": _all_reduce_doubling, "halving": _all_reduce_halving, "tree": _all_reduce_tree,
    },
    "all_gather": {"ring": lambda place, nbytes: _ring(place, nbytes, False), "doubling": _all_gather_doubling},
    "reduce_scatter": {"ring": lambda place, nbytes: _ring(place, nbytes, True), "halving": _reduce_scatter_halving},
    "broadcast": {"tree": _broadcast_tree, "pieces": _broadcast_pieces},
}  # fmt: skip

KINDS = tuple(_FLAT)


def _hierarchical(cluster: Cluster, kind: str, place: Place, nbytes: float) -> list[Round]:
    node, nodes = _split(place)

    def quickest(kind, where, size):
        return min((made(where, size) for made in _FLAT[kind].values()), key=lambda rounds: moving(cluster, rounds))

    part = nbytes / place.per_node
    if kind == "all_reduce":
        inside = quickest("reduce_scatter", node, nbytes), quickest("all_gather", node, nbytes)
        return [*inside[0], *quickest("all_reduce", nodes, part), *inside[1]]
    if kind == "reduce_scatter":
        return [*quickest(kind, node, nbytes), *quickest(kind, nodes, part)]
    if kind == "all_gather":
        return [*quickest(kind, nodes, part), *quickest(kind, node, nbytes)]
    one = nodes._replace(sharers=1)
    return [*quickest(kind, one, nbytes), *quickest(kind, node, nbytes)]


def algorithms(cluster: Cluster, kind: str, ranks: int, nbytes: float) -> dict[str, list[Round]]:
    """Return the rounds of every algorithm there is for a collective, by name.

    Args:
        cluster: a Cluster.
        kind: "all_reduce", "all_gather", "reduce_scatter" or "broadcast"; ValueError for another.
        ranks: how many.
        nbytes: size of the whole.

    >>> from torch.distributed.plan import Cluster
    >>> from torch.distributed.plan.collectives import algorithms
    >>> list(algorithms(Cluster(ranks_per_node=4), "all_reduce", 8, 1e6))
    ['ring', 'doubling', 'halving', 'tree', 'hierarchical']
    """
    if kind not in _FLAT:
        raise ValueError(f"plan: a collective is one of {', '.join(KINDS)}, got {kind!r}")
    if ranks < 1 or nbytes < 0:
        raise ValueError(f"plan: expected at least one rank and 0 bytes, got {ranks} and {nbytes}")
    if ranks == 1:
        return {"alone": []}
    place = Place(ranks, min(ranks, cluster.ranks_per_node))
    made = {name: algorithm(place, nbytes) for name, algorithm in _FLAT[kind].items()}
    if 1 < cluster.ranks_per_node < ranks:
        made["hierarchical"] = _hierarchical(cluster, kind, place, nbytes)
    return made


def moving(cluster: Cluster, rounds: list[Round], crowd: float = 1.0) -> float:
    """Return the seconds of rounds, one after another.

    Args:
        cluster: a Cluster.
        rounds: a list of Round.
        crowd: how many times longer everything takes, from `Cluster.crowding`.

    >>> from torch.distributed.plan import Cluster, Link
    >>> from torch.distributed.plan.collectives import Round, moving
    >>> moving(Cluster(inside=Link(1e-6, 1e9)), [Round(2, 1000.0, 0.0, 1, 0)])
    4e-06
    """
    total, waits = 0.0, (crowd > 1) * cluster.switch
    for r in rounds:
        inside = cluster.inside.seconds(r.bytes) if r.inside else 0.0
        between = cluster.between.seconds(r.bytes, r.between) if r.between else 0.0
        total += r.times * ((max(inside, between) + r.reduced * cluster.reduce) * crowd + waits)
    return total


#: Bytes of an all_reduce or broadcast that travel with the agreement.
RIDES = 104


def agreement(cluster: Cluster, ranks: int) -> list[Round]:
    """Return the rounds in which ranks see that they call the same, before data moves; none where the cluster's do not.

    Args:
        cluster: a Cluster.
        ranks: how many.

    >>> from torch.distributed.plan import Cluster
    >>> from torch.distributed.plan.collectives import agreement
    >>> len(agreement(Cluster(), 8)), agreement(Cluster(agree=False), 8)
    (3, [])
    """
    if not cluster.agree or ranks == 1:
        return []
    return _all_reduce_doubling(Place(ranks, min(ranks, cluster.ranks_per_node)), 16)


def best(cluster: Cluster, kind: str, ranks: int, nbytes: float) -> tuple[str, float, list[Round]]:
    """Return (name, seconds, rounds) of the quickest algorithm; the seconds are those of its rounds alone.

    Args:
        cluster: a Cluster.
        kind: "all_reduce", "all_gather", "reduce_scatter" or "broadcast"; ValueError for another.
        ranks: how many.
        nbytes: size of the whole.

    >>> from torch.distributed.plan import Cluster
    >>> from torch.distributed.plan.collectives import best
    >>> best(Cluster(), "all_reduce", 8, 16)[0], best(Cluster(), "all_reduce", 8, 1e9)[0]
    ('doubling', 'halving')
    """
    crowd = cluster.crowding(ranks)
    made = algorithms(cluster, kind, ranks, nbytes)
    timed = [(name, moving(cluster, rounds, crowd), rounds) for name, rounds in made.items()]
    return min(timed, key=lambda entry: entry[1])


def cost(cluster: Cluster, kind: str, ranks: int, nbytes: float, algorithm: str | None = None) -> float:
    """Return the seconds of one collective on a cluster, with what a call costs and the comparison of what ranks call.

    Args:
        cluster: a Cluster.
        kind: "all_reduce", "all_gather", "reduce_scatter" or "broadcast"; ValueError for another.
        ranks: how many; alone it takes nothing.
        nbytes: size of the whole: of what is reduced, or of what all have together.
        algorithm: a name of `collectives.algorithms`. Default: the quickest one.

    >>> from torch.distributed.plan import Cluster, cost
    >>> cluster = Cluster()
    >>> cost(cluster, "all_reduce", 8, 1e6) < cost(cluster, "all_reduce", 8, 1e6, "ring")
    True
    >>> cost(cluster, "broadcast", 1, 1e6)
    0.0
    """
    if ranks == 1:
        return 0.0
    if algorithm is None:
        rounds = best(cluster, kind, ranks, nbytes)[2]
    else:
        made = algorithms(cluster, kind, ranks, nbytes)
        if algorithm not in made:
            raise ValueError(f"plan: {kind} of {ranks} ranks is one of {', '.join(made)}, got {algorithm!r}")
        rounds = made[algorithm]
    if cluster.agree and nbytes <= RIDES and kind in ("all_reduce", "broadcast"):
        rounds = []
    crowd = cluster.crowding(ranks)
    return cluster.call * crowd + moving(cluster, agreement(cluster, ranks) + rounds, crowd)
