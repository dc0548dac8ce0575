"""Compute the order in which processes run the pieces of a batch through their stages.

An order is a list of actions for each process: forward (F), backward (B), or the halves of a backward: the gradients of
a stage's inputs, which the stage before waits for (I), and those of its weights, which no stage waits for (W). Every
process computes the orders of all processes, and all obtain the same ones. Zero-bubble orders come from a simulation in
which every action takes one tick, and a process that would wait uses the time for a W (Qi, Wan, Huang, Lin, "Zero
Bubble Pipeline Parallelism", 2023).
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(str, Enum):
    """Name the kind of an action, as in PyTorch's orders. Facula's orders have the first four."""

    FORWARD = "F"
    FULL_BACKWARD = "B"
    BACKWARD_INPUT = "I"
    BACKWARD_WEIGHT = "W"
    OVERLAP_F_B = "OVERLAP_F_B"
    UNSHARD = "UNSHARD"
    RESHARD = "RESHARD"
    REDUCE_GRAD = "REDUCE_GRAD"
    SEND_F = "SEND_F"
    RECV_F = "RECV_F"
    SEND_B = "SEND_B"
    RECV_B = "RECV_B"


class Action(NamedTuple):
    """Describe one action: a kind of work on one piece in one stage."""

    kind: str
    stage: int
    piece: int

    def __repr__(self) -> str:
        return f"{self.stage}{self.kind}{self.piece}"

    @property
    def computation_type(self) -> Kind:
        """The kind, as PyTorch's programs ask for it."""
        return Kind(self.kind)

    @property
    def stage_index(self) -> int:
        """The stage."""
        return self.stage

    @property
    def microbatch_index(self) -> int:
        """The piece."""
        return self.piece


def loop(stage: int, size: int) -> int:
    """Return the rank of a stage: stages go around the processes."""
    return stage % size


def vee(stage: int, size: int) -> int:
    """Return the rank of a stage: forth, and back with the second half, so that the last stage is in the first process."""
    return stage if stage < size else 2 * size - 1 - stage


def all_forward_first(size: int, stages: int, pieces: int) -> list[list[Action]]:
    """Order all pieces forwards, stage by stage; then all backwards, the last stage first."""
    orders = []
    for rank in range(size):
        mine = range(rank, stages, size)
        orders.append([Action("F", s, i) for s in mine for i in range(pieces)])
        orders[-1] += [Action("B", s, i) for s in reversed(mine) for i in range(pieces)]
    return orders


def one_by_one(size: int, stages: int, pieces: int, backward: str = "B") -> list[list[Action]]:
    """Return the orders of one backward for every forward, as soon as the first piece has come through. Of several stages in a
    process, each has as many pieces in a row as there are processes (Narayanan et al., "Efficient Large-Scale Language Model
    Training", 2021).
    """
    parts = stages // size
    rounds = max(1, pieces // size) if parts > 1 else 1
    row = pieces // rounds
    orders = []
    for rank in range(size):
        steps = [(part, n * row + i) for n in range(rounds) for part in range(parts) for i in range(row)]
        forwards = [Action("F", part * size + rank, i) for part, i in steps]
        backwards = [Action(backward, (parts - 1 - part) * size + rank, i) for part, i in steps]
        # The forwards before the first backward: earlier stages wait longer for the first gradient and fill the time
        # with pieces.
        ahead = size - 1 - rank if parts == 1 else (parts - 1) * row + 2 * (size - 1 - rank)
        ahead = min(ahead, len(forwards))
        order = forwards[:ahead]
        for f, b in zip(forwards[ahead:], backwards):
            order += [f, b]
        orders.append(order + backwards[len(forwards) - ahead :])
    return orders


class _Simulation:
    """Simulate processes that run one action a tick."""

    def __init__(self, size: int, stages: int) -> None:
        self.stages, self.done = stages, set()
        self.orders: list[list[Action]] = [[] for _ in range(size)]
        self.weights: list[list[Action]] = [[] for _ in range(size)]  # that may be run, oldest first

    def is_ready(self, action: Action) -> bool:
        """Return whether what an action needs has been done in earlier ticks."""
        kind, stage, piece = action
        if kind == "F":
            return stage == 0 or ("F", stage - 1, piece) in self.done
        if ("F", stage, piece) not in self.done:
            return False
        return stage == self.stages - 1 or any((k, stage + 1, piece) in self.done for k in "IB")

    def tick(self, choose) -> bool:
        """Let each process run `choose(rank)`, an action or None; return whether any did."""
        chosen = [choose(rank) for rank in range(len(self.orders))]
        for rank, action in enumerate(chosen):
            if action is None:
                continue
            self.orders[rank].append(action)
            self.done.add(tuple(action))
            if action.kind == "I":
                self.weights[rank].append(Action("W", action.stage, action.piece))
            elif action.kind == "W":
                self.weights[rank].remove(action)
        return any(chosen)

    def run(self, choose) -> list[list[Action]]:
        """Return the orders, when nobody has anything left to do."""
        while self.tick(choose):
            pass
        return self.orders


def with_weights_in_gaps(base: list[list[Action]], stages: int) -> list[list[Action]]:
    """Return orders whose backwards are of inputs; gradients of weights are put where a process would wait, and at the end. As
    many of them wait as there are stages, at most.
    """
    simulation, at = _Simulation(len(base), stages), [0] * len(base)

    def choose(rank):
        weights, order = simulation.weights[rank], base[rank]
        # Gradients of weights hold the activations of their pieces, so their number is bounded.
        if len(weights) >= stages:
            return weights[0]
        if at[rank] < len(order) and simulation.is_ready(order[at[rank]]):
            at[rank] += 1
            return order[at[rank] - 1]
        return weights[0] if weights else None

    return simulation.run(choose)


def vee_without_gaps(size: int, pieces: int) -> list[list[Action]]:
    """Return the orders of two stages in each process, forth and back. A process runs what others wait for first: gradients of
    inputs, then forwards of its second stage, then of its first, while it keeps no more than two pieces for each process; then
    gradients of weights.
    """
    stages, limit = 2 * size, 2 * size
    simulation = _Simulation(size, stages)
    count = {(kind, s): 0 for kind in "FI" for s in range(stages)}
    kept = [0] * size

    def ready(kind, stage):
        action = Action(kind, stage, count[kind, stage])
        return action if action.piece < pieces and simulation.is_ready(action) else None

    def choose(rank):
        first, second = rank, stages - 1 - rank
        room = {"F": {second: limit - kept[rank], first: limit - 1 - kept[rank]}, "I": {second: 1, first: 1}}
        # Backwards first, and the later stage before the earlier one, because other processes wait longest for these.
        for kind, stage in (("I", second), ("I", first), ("F", second), ("F", first)):
            action = ready(kind, stage) if room[kind][stage] > 0 else None
            if action is not None:
                count[kind, stage] += 1
                kept[rank] += kind == "F"
                return action
        if simulation.weights[rank]:
            kept[rank] -= 1
            return simulation.weights[rank][0]
        return None

    return simulation.run(choose)


def dual_vee(size: int, pieces: int) -> list[list[Action]]:
    """Return the orders of two stages in each process, forth and back; in the middle every forward of one has a backward of the
    other beside it, which a device can run at the same time (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, and its
    DualPipe).
    """
    return [_dual_vee_of(rank, size, pieces) for rank in range(size)]


def _dual_vee_of(rank: int, size: int, pieces: int) -> list[Action]:
    first, second, behind = rank, 2 * size - 1 - rank, size - 1 - rank
    order: list[Action] = []
    count = {(kind, stage): 0 for kind in "FB" for stage in (first, second)}
    weights: list[Action] = []

    def run(kind: str, stage: int) -> None:
        way = "B" if kind == "I" else kind
        order.append(Action(kind, stage, count[way, stage]))
        count[way, stage] += 1
        if kind == "I":
            weights.append(order[-1]._replace(kind="W"))

    def phase(times: int, *steps: tuple[str, int]) -> None:
        for _ in range(times):
            for kind, stage in steps:
                if kind != "W":
                    run(kind, stage)
                elif weights:
                    order.append(weights.pop(0))

    any_weights = ("W", first)
    phase(2 * behind, ("F", first))
    phase(rank + 1, ("F", first), ("F", second))
    phase(behind, ("I", second), any_weights, ("F", second))
    phase(pieces - size - behind, ("F", first), ("B", second), ("F", second), ("B", first))
    phase(behind, ("B", second), ("F", second), ("B", first))
    for i in range(2 * (rank + 1)):  # what is left of the weights' gradients fills the gaps at the end
        run("B" if i <= rank else "I", first if i % 2 else second)
    phase(behind, any_weights, ("I", first))
    phase(rank + 1, any_weights)
    return order
