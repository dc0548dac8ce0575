"""Packages by others ask for these; their own tests found them."""

import io
import pickle

import pytest

import facula
from facula.utils import data


def round_trip(obj, **options):
    stream = io.BytesIO()
    facula.save(obj, stream)
    stream.seek(0)
    return facula.load(stream, **options)


class Bag:
    """Packages write containers of tensors like this one: with a state of its own, and a `__del__`."""

    def __init__(self, items):
        self.items, self.cache = items, 1

    def __getstate__(self):
        return {"items": self.items}

    def __setstate__(self, state):
        self.items, self.cache = state["items"], None

    def __del__(self):
        pass


def test_containers_that_a_package_registers_restore_themselves():
    from facula.utils import _pytree

    bag = Bag({"a": facula.ones(2)})
    with pytest.raises(pickle.PicklingError, match="Bag, which load could not restore"):
        facula.save(bag, io.BytesIO())
    _pytree.register_pytree_node(Bag, lambda b: (list(b.items.values()), list(b.items)), lambda v, k: Bag(dict(zip(k, v, strict=True))))
    try:
        loaded = round_trip(bag, weights_only=False)
        assert loaded.cache is None and facula.equal(loaded.items["a"], facula.ones(2))
        with pytest.raises(pickle.UnpicklingError, match="Bag"):
            round_trip(bag)
    finally:
        _pytree._deregister_pytree_node(Bag)


def test_it_is_made_of_the_tensors_that_it_names():
    from facula.nested._internal.nested_tensor import NestedTensor, _tensor_symint_registry
    from facula.nested._internal.ops import extract_kwargs

    rows, offsets, lengths = facula.ones(6, 3), facula.tensor([0, 2, 6]), facula.tensor([1, 3])
    listed = facula.nested.nested_tensor([facula.ones(2, 3), facula.ones(4, 3)], layout=facula.jagged)
    bare = facula.nested.nested_tensor_from_jagged(rows, offsets)
    gaps = facula.nested.nested_tensor_from_jagged(rows, offsets, lengths)
    told = facula.nested.nested_tensor_from_jagged(rows, offsets.clone(), min_seqlen=2, max_seqlen=4)
    both = ["_min_seqlen_tensor", "_max_seqlen_tensor"]
    assert listed.__tensor_flatten__() == (["_values", "_offsets", *both], {"requires_grad": False, "ragged_idx": 1})
    assert told.__tensor_flatten__()[0] == ["_values", "_offsets", *both]
    assert bare.__tensor_flatten__()[0] == ["_values", "_offsets"] and bare._maybe_max_seqlen is None
    assert gaps.__tensor_flatten__()[0] == ["_values", "_offsets", "_lengths"]
    assert (gaps._max_seqlen, gaps._maybe_max_seqlen, gaps._maybe_min_seqlen) == (3, 3, None)
    assert bare._values is rows and bare._offsets is offsets and gaps._lengths is lengths and listed._values is listed._values
    names, rest = listed.__tensor_flatten__()
    again = NestedTensor.__tensor_unflatten__({name: getattr(listed, name) for name in names}, rest, None, None)
    assert again.shape == listed.shape and (again._maybe_min_seqlen, again._maybe_max_seqlen) == (2, 4)
    assert {k: list(v.shape) for k, v in extract_kwargs(told)["_metadata_cache"].items()} == {
        "min_seqlen": [2, 0], "max_seqlen": [4, 0]
    }  # fmt: skip
    moved = listed.offsets().clone()
    _tensor_symint_registry[moved] = _tensor_symint_registry[listed.offsets()]  # as who copies a structure says so
    assert NestedTensor(listed.values(), moved).shape == listed.shape
    assert _tensor_symint_registry.get(facula.ones(1)) is None


@pytest.mark.parametrize("size", [3, 5_000, 100_000])
def test_batches_of_workers_lie_in_shared_memory(size):
    """Programs ask for it before they hand batches on to other processes, whatever the size."""

    class Rows(data.Dataset):
        def __len__(self):
            return 40

        def __getitem__(self, index):
            return facula.full((size,), index), facula.tensor([index])

    alone = next(iter(data.DataLoader(Rows(), batch_size=2)))
    assert not any(part.is_shared() for part in alone)
    batches = list(data.DataLoader(Rows(), batch_size=2, num_workers=1))
    assert all(part.is_shared() and part.untyped_storage().is_shared() for batch in batches for part in batch)
    for i, (rows, numbers) in enumerate(batches):  # each has its own memory
        assert numbers.tolist() == [[2 * i], [2 * i + 1]] and (rows == numbers).all()
        rows.fill_(-1)
    kept = batches[0][1]
    descriptor = facula._C._storage_share(kept.untyped_storage())  # what hands it on
    again = facula._C._tensor_from_storage(facula._C._storage_from_fd(descriptor, 16), kept.dtype, 0, (2,), (1,))
    assert again.tolist() == [0, 1]


def test_small_messages_share_blocks_that_are_used_again_when_nobody_holds_a_part():
    from facula.utils.data._utils.channel import Channel

    here, there = Channel.pair()

    def received(value):
        here.send(facula.full((1000,), float(value)))
        return there.receive()

    kept = [received(i) for i in range(200)]  # 800 KB: in four blocks
    blocks = {id(block) for block in there._pieces._blocks}
    assert len(blocks) == 4 and all((x == i).all() for i, x in enumerate(kept))
    del kept[:65]
    more = [received(1000 + i) for i in range(130)]
    after = [id(block) for block in there._pieces._blocks]
    assert len(after) == 5 and blocks < set(after)  # the first one is used again
    assert all((x == 65 + i).all() for i, x in enumerate(kept)) and all((x == 1000 + i).all() for i, x in enumerate(more))
    del kept, more
    for i in range(1000):
        assert received(i)[0] == i
    assert len(there._pieces._blocks) == 5
    here.close()
    there.close()


def test_a_tracer_whose_create_proxy_takes_no_factory_gets_none():
    """torchvision's feature extraction has such a class."""

    class Named(facula.fx.Tracer):
        seen = ()

        def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, *_):
            self.seen += (target,)
            return super().create_proxy(kind, target, args, kwargs, name, type_expr)

    class Scale(facula.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = facula.nn.Parameter(facula.ones(2))

        def forward(self, x):
            return x * self.weight

    tracer = Named(param_shapes_constant=True)
    graph = tracer.trace(Scale())
    assert "weight" in tracer.seen and [node.op for node in graph.nodes] == ["placeholder", "get_attr", "call_function", "output"]
