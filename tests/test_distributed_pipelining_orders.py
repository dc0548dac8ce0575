"""Pipelines: the orders of schedules, the pieces that batches are cut into, and backwards in two halves."""

import pytest

import facula
from facula import nn
from facula.distributed.pipelining import _orders
from facula.distributed.pipelining.stage import _WeightGradients


def is_complete(orders, place, stages, pieces, kinds):
    """Whether every process can run its order, one action a tick at most; how many ticks that takes."""
    size = len(orders)
    expected = [{(k, s, i) for k in kinds for s in range(stages) if place(s, size) == r for i in range(pieces)} for r in range(size)]
    assert [set(map(tuple, o)) for o in orders] == expected and [len(o) for o in orders] == [len(e) for e in expected]
    done, at, ticks = set(), [0] * size, 0
    while any(a < len(o) for a, o in zip(at, orders)):
        moved = []
        for rank, order in enumerate(orders):
            if at[rank] == len(order):
                continue
            kind, s, i = order[at[rank]]
            if kind == "F":
                ready = s == 0 or ("F", s - 1, i) in done
            elif kind == "W":
                ready = ("I", s, i) in done
            else:
                ready = ("F", s, i) in done and (s == stages - 1 or (kind, s + 1, i) in done)
            if ready:
                moved.append(rank)
        assert moved, "they wait for each other"
        for rank in moved:
            done.add(tuple(orders[rank][at[rank]]))
            at[rank] += 1
        ticks += 1
    return ticks


def _with_whole_backwards(orders):
    """The halves that others wait for as whole backwards; every half has its other one behind it."""
    for order in orders:
        at = {tuple(action): i for i, action in enumerate(order)}
        for kind, stage, piece in order:
            assert kind not in "IW" or at["I", stage, piece] < at["W", stage, piece]
    return [[a._replace(kind="B") if a.kind == "I" else a for a in order if a.kind != "W"] for order in orders]


def test_pieces():
    from facula.distributed.pipelining.microbatch import (
        TensorChunkSpec,
        merge_chunks,
        split_args_kwargs_into_chunks,
        sum_reducer,
    )

    x = facula.arange(12).view(6, 2)
    specs = (None, TensorChunkSpec.from_dict({"across": 1, "down": 0}), [TensorChunkSpec(1), None])
    args, kwargs = split_args_kwargs_into_chunks((x, {"across": x.t(), "down": x}, [x.t(), "n"]), {"m": [x, None]}, 3, specs)
    for i, (plain, named, nested) in enumerate(args):
        part = x[2 * i : 2 * i + 2]
        assert facula.equal(plain, part) and facula.equal(named["across"], part.t()) and facula.equal(named["down"], part)
        assert facula.equal(nested[0], part.t()) and nested[1] == "n"
        assert facula.equal(kwargs[i]["m"][0], part) and kwargs[i]["m"][1] is None
    whole, loss = merge_chunks([(x[:3].t(), facula.tensor(2.0)), (x[3:].t(), facula.tensor(3.0))], (TensorChunkSpec(1), sum_reducer))
    assert facula.equal(whole, x.t()) and loss.item() == 5.0
    with pytest.raises(ValueError, match="nested as the values"):
        split_args_kwargs_into_chunks(([x, x],), {}, 2, ([TensorChunkSpec(0)],))
    with pytest.raises(ValueError, match="a spec for each of 1 arguments, got 2"):
        split_args_kwargs_into_chunks((x,), {}, 2, (None, None))


def test_pieces_of_masks():
    from facula.distributed.pipelining import TensorChunkSpec, split_args_kwargs_into_chunks
    from facula.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, q, k: q - k <= 60 * b, 4, 1, 256, 256, device="cpu")
    q = facula.randn(4, 1, 256, 8)
    expected = flex_attention(q, q, q, block_mask=mask)
    pieces, _ = split_args_kwargs_into_chunks((q, mask), {}, 3)
    assert facula.allclose(expected, facula.cat([flex_attention(p, p, p, block_mask=m) for p, m in pieces]))
    one = create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 128, 128, device="cpu")
    assert all(args[0] is one for args in split_args_kwargs_into_chunks((one,), {}, 3)[0])
    with pytest.raises(ValueError, match="along its batch, dimension 0, got 1"):
        split_args_kwargs_into_chunks((mask,), {}, 2, (TensorChunkSpec(1),))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
def test_orders(size):
    for rows in (1, 2, 3):
        pieces = rows * size
        for parts in (1, 2, 3):
            stages = parts * size
            for order in (_orders.all_forward_first, _orders.one_by_one):
                is_complete(order(size, stages, pieces), _orders.loop, stages, pieces, "FB")
            halves = _orders.one_by_one(size, stages, pieces, "I")
            filled = _orders.with_weights_in_gaps(halves, stages)
            ticks = is_complete(filled, _orders.loop, stages, pieces, "FIW")
            # weights at the end, with nothing in the gaps, take longer
            assert ticks <= is_complete(halves, _orders.loop, stages, pieces, "FI") + parts * pieces
            for order in filled:  # each process waits with few weights
                waiting = 0
                for kind, _, _ in order:
                    waiting += {"I": 1, "W": -1}.get(kind, 0)
                    assert 0 <= waiting <= stages
        vee = _orders.vee_without_gaps(size, pieces)
        ticks = is_complete(vee, _orders.vee, 2 * size, pieces, "FIW")
        if rows == 3:  # the time lost is that of the first piece on its way
            assert ticks <= 6 * pieces + 2 * size
        for order in vee:
            kept = 0
            for kind, _, _ in order:
                kept += {"F": 1, "W": -1}.get(kind, 0)
                assert kept <= 2 * size
        dual = _orders.dual_vee(size, 2 * pieces)
        kinds = [{k for k, _, _ in order} for order in dual]
        halves = [[a for a in order if a.kind in "IW"] for order in dual]
        assert all("B" in k for k in kinds) and all(len(h) == len(set(h)) for h in halves)
        ticks = is_complete(_with_whole_backwards(dual), _orders.vee, 2 * size, 2 * pieces, "FB")
        assert ticks <= 8 * pieces + 4 * size
    for pieces in (1, 5, 7):
        is_complete(_orders.vee_without_gaps(size, pieces), _orders.vee, 2 * size, pieces, "FIW")
        is_complete(_orders.one_by_one(size, size, pieces), _orders.loop, size, pieces, "FB")


def test_halves_of_a_backward():
    facula.manual_seed(0)
    first, second = nn.Linear(3, 4), nn.Linear(4, 2)
    x = facula.randn(5, 3, requires_grad=True)
    (second(first(x).relu()).square().sum()).backward()
    expected = [x.grad, *(p.grad for m in (first, second) for p in m.parameters())]
    x.grad = None
    for m in (first, second):
        m.zero_grad()
    calls = []
    hidden = first(x).relu()
    hidden.register_hook(lambda g: calls.append("way"))
    loss = second(hidden).square().sum()
    rest = _WeightGradients([loss], [facula.ones(())], [x])
    assert facula.allclose(rest.input_grads[0], expected[0]) and first.weight.grad is None and calls == ["way"]
    rest.run()
    got = [p.grad for m in (first, second) for p in m.parameters()]
    assert all(facula.allclose(a, b) for a, b in zip(got, expected[1:])) and calls == ["way"]  # the way is not gone twice
