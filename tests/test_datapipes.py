"""Data pipes: streams and maps made of others, with the values that PyTorch gives."""

import warnings
from collections.abc import Iterator

import pytest

import facula as torch
from facula.utils import data
from facula.utils.data import datapipes, graph, graph_settings
from facula.utils.data.datapipes.iter import FileLister, FileOpener, IterableWrapper, Sampler, StreamReader

Sequence = datapipes.map.SequenceWrapper
pytestmark = pytest.mark.filterwarnings("ignore:(Lambda|Local) function is not supported by pickle:UserWarning")


def remainder(x):
    return x % 3


def first_letter(text):
    return text[0]


@pytest.mark.parametrize(
    ("pipe", "expected"),
    [
        (lambda s: s([(1, 2), (3, 4)]).map(lambda x: x + 1, input_col=1), [(1, 3), (3, 5)]),
        (lambda s: s([(1, 2), (3, 4)]).map(lambda x: x + 1, input_col=1, output_col=-1), [(1, 2, 3), (3, 4, 5)]),
        (lambda s: s([(1, 2), (3, 4)]).map(lambda a, b: a + b, input_col=(0, 1)), [(3,), (7,)]),
        (lambda s: s([{"a": 1, "b": 2}]).map(lambda x: x + 1, input_col="a", output_col="c"), [{"a": 1, "b": 2, "c": 2}]),
        (lambda s: s([[1, 2, 3]]).map(lambda a, b: a * b, input_col=[2, 1], output_col=0), [[6, 2, 3]]),
        (lambda s: s(range(6)).filter(lambda x: x % 2 == 0), [0, 2, 4]),
        (lambda s: s([(1, 5), (2, 6)]).filter(lambda x: x > 5, input_col=1), [(2, 6)]),
        (lambda s: s(range(7)).batch(3), [[0, 1, 2], [3, 4, 5], [6]]),
        (lambda s: s(range(7)).batch(3, drop_last=True), [[0, 1, 2], [3, 4, 5]]),
        (lambda s: s(range(6)).batch(2).batch(2).unbatch(2), [0, 1, 2, 3, 4, 5]),
        (lambda s: s([[1, [2]], [3]]).unbatch(-1), [1, 2, 3]),
        (lambda s: s(["a1", "b1", "a2", "b2", "a3"]).groupby(first_letter), [["a1", "a2", "a3"], ["b1", "b2"]]),
        (
            lambda s: s(["a1", "b1", "a2", "b2", "a3"]).groupby(first_letter, group_size=2, buffer_size=3),
            [["a1", "a2"], ["b1", "b2"], ["a3"]],
        ),
        (
            lambda s: s(["a1", "b1", "a2"]).groupby(first_letter, keep_key=True, buffer_size=3),
            [("a", ["a1", "a2"]), ("b", ["b1"])],
        ),
        (lambda s: s(range(6)).groupby(abs, buffer_size=3, group_size=2, drop_remaining=True), [[4], [5]]),
        (lambda s: s([1, 2]).concat(s([3])), [1, 2, 3]),
        (lambda s: s([1, 2, 3]).mux(s([4, 5])), [1, 4, 2, 5]),
        (lambda s: s([1, 2, 3]).zip(s([4, 5])), [(1, 4), (2, 5)]),
        (lambda s: s(range(10)).shuffle().set_seed(3), [3, 9, 2, 4, 7, 6, 0, 8, 1, 5]),
        (
            lambda s: s(range(20)).shuffle(buffer_size=4).set_seed(3),
            [1, 4, 2, 3, 0, 8, 7, 6, 5, 12, 10, 14, 15, 13, 17, 18, 16, 11, 9, 19],
        ),
        (lambda s: s(range(4)).shuffle().set_shuffle(False), [0, 1, 2, 3]),
        (lambda s: Sampler(Sequence([5, 6, 7])), [0, 1, 2]),
        (lambda s: Sequence(range(9)).shuffle().set_seed(1), [5, 6, 7, 4, 3, 0, 8, 1, 2]),
        (lambda s: Sequence(range(3), deepcopy=False).map(str).shuffle(indices=[2, 0]).set_shuffle(False), ["2", "0"]),
    ],
)
def test_streams(pipe, expected):
    assert list(pipe(IterableWrapper)) == expected


def test_streams_that_branch():
    one, other = IterableWrapper(range(4)).fork(2)
    assert next(iter(one)) == 0 and list(other) == [0, 1, 2, 3] and len(one) == 4
    assert [list(branch) for branch in IterableWrapper(range(6)).demux(3, remainder)] == [[0, 3], [1, 4], [2, 5]]
    branches = IterableWrapper(range(6)).demux(2, lambda x: x % 3 if x % 3 < 2 else None, drop_none=True)
    assert [list(branch) for branch in branches] == [[0, 3], [1, 4]]
    assert [batch.tolist() for batch in IterableWrapper(range(4)).batch(2).collate()] == [[0, 1], [2, 3]]


def test_lengths():
    stream = IterableWrapper
    assert len(stream(range(7)).batch(3)) == 3 and len(stream(range(7)).batch(3, drop_last=True)) == 2
    assert len(stream([1, 2]).concat(stream([3]))) == 3 and len(stream([1, 2, 3]).mux(stream([4, 5]))) == 4
    assert len(stream([1, 2, 3]).zip(stream([4, 5]))) == 2 and len(Sequence(range(9)).shuffle()) == 9


def test_maps():
    batches = Sequence(range(5)).batch(2)
    assert [batches[i] for i in range(len(batches))] == [[0, 1], [2, 3], [4]] and batches[0].as_str() == "[0, 1]"
    assert Sequence([1]).concat(Sequence([2]))[1] == 2 and Sequence([1, 2]).zip(Sequence([3]))[0] == (1, 3)
    assert Sequence({"a": 1})["a"] == 1 and Sequence([1, 2]).map(abs)[1] == 2


def test_files(tmp_path):
    for name in ("b.txt", "a.txt", "c.dat"):
        (tmp_path / name).write_text(name)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "z.txt").write_text("zz")
    texts = FileLister(str(tmp_path), "*.txt")
    assert [path[len(str(tmp_path)) + 1 :] for path in texts] == ["a.txt", "b.txt"]
    assert len(list(FileLister(str(tmp_path), recursive=True))) == 4
    assert [part for _, part in StreamReader(FileOpener(texts))] == ["a.txt", "b.txt"]
    assert [part for _, part in StreamReader(FileOpener(texts, mode="b"), chunk=3)] == [b"a.t", b"xt", b"b.t", b"xt"]


def test_parts_for_workers():
    stream = IterableWrapper(range(7)).sharding_filter()
    assert graph_settings.apply_sharding(stream, 3, 1) is stream and list(stream) == [1, 4] and len(stream) == 2
    assert len(graph_settings.get_all_graph_pipes(graph.traverse_dps(stream.map(abs).zip(IterableWrapper([2]))))) == 5
    loader = data.DataLoader(IterableWrapper(range(6)).shuffle().sharding_filter(), batch_size=4, shuffle=False)
    assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5]]
    loader = data.DataLoader(IterableWrapper(range(6)).shuffle().sharding_filter(), batch_size=2, shuffle=True, num_workers=2)
    assert sorted(x for batch in loader for x in batch.tolist()) == list(range(6))
    with pytest.warns(UserWarning, match="no pipe here shuffles"):
        assert sorted(data.DataLoader(IterableWrapper(range(3)), shuffle=True)) == [0, 1, 2]


def test_own_classes():
    @data.functional_datapipe("plus_for_a_test")
    class Plus(data.IterDataPipe):
        def __init__(self, source, by):
            self.source, self.by = source, by

        def __iter__(self):
            for x in self.source:
                yield x + self.by

    assert list(IterableWrapper([1]).plus_for_a_test(2)) == [3] and repr(Plus([], 1)).endswith("Plus")
    with pytest.raises(RuntimeError, match="^register_function: a new name is expected, got plus_for_a_test"):
        data.functional_datapipe("plus_for_a_test")(Plus)
    with pytest.raises(TypeError, match="got <class 'int'>$"):
        data.functional_datapipe("other")(int)


class Checked(data.IterDataPipe):
    @data.argument_validation
    def __init__(self, source: data.IterDataPipe):
        self.source = source

    @data.runtime_validation
    def __iter__(self) -> Iterator[int]:
        yield from self.source


def test_classes_of_arguments_and_samples():
    assert list(Checked(IterableWrapper([1, 2]))) == [1, 2]
    with pytest.raises(TypeError, match="^argument_validation: source must be of type"):
        Checked(3)
    with pytest.raises(RuntimeError, match="^runtime_validation: items of type <class 'int'> are expected"):
        list(Checked(IterableWrapper(["x"])))
    with data.runtime_validation_disabled():
        assert list(Checked(IterableWrapper(["x"]))) == ["x"]


def test_classes_whose_order_changes():
    @data.non_deterministic
    class Changes(data.IterDataPipe):
        def __iter__(self):
            yield 1

    assert list(Changes()) == [1]
    with data.guaranteed_datapipes_determinism(), pytest.raises(TypeError, match="^Changes: it is not deterministic"):
        Changes()
    assert list(Changes()) == [1]


def read_twice():
    stream = IterableWrapper(range(3))
    first = iter(stream)
    next(first)
    next(iter(stream))
    return next(first)


@pytest.mark.parametrize(
    ("use", "kind", "text"),
    [
        (lambda s: s([1]).map(abs, output_col=1), ValueError, "there can be no output_col"),
        (lambda s: list(s(range(3)).filter(abs)), ValueError, "filter_fn must return a bool"),
        (lambda s: s([1]).batch(0), AssertionError, "got 0$"),
        (lambda s: list(s([1]).unbatch(1)), IndexError, "^UnBatcher: lists nested 1 deep are expected"),
        (lambda s: s([1]).unbatch(-2), ValueError, "got -2$"),
        (lambda s: list(s(range(6)).groupby(abs, buffer_size=3, group_size=2)), RuntimeError, "^Grouper: the buffer is full"),
        (lambda s: list(s(range(9)).fork(2, buffer_size=2)[0]), BufferError, "buffer overflow"),
        (lambda s: list(s(range(6)).demux(2, remainder)[0]), ValueError, "got 2$"),
        (lambda s: s([1]).fork(0), ValueError, "^fork: num_instances must be positive, got 0$"),
        (
            lambda s: graph_settings.apply_sharding(s([1]).sharding_filter().sharding_filter(), 2, 0),
            RuntimeError, "^apply_sharding: .* at most once",
        ),
        (lambda s: graph_settings.apply_sharding(s([1]).sharding_filter(), 2, 2), ValueError, r"^apply_sharding: instance_id must be below num_of_instances=2, got 2"),
        (lambda s: s([1]).concat(3), TypeError, "^ConcaterIterDataPipe: expected streams"),
        (lambda s: s([1]).shuffle(buffer_size=0), AssertionError, "got 0$"),
        (lambda s: s([1]).nope, AttributeError, "no attribute 'nope'"),
        (lambda s: read_twice(), RuntimeError, "^IterDataPipe: a newer iterator of"),
        (lambda s: Sequence(range(5)).batch(2)[3], IndexError, "^Batcher: index 3 is out of range"),
        (lambda s: Sequence([1, 2]).zip(Sequence([3]))[1], IndexError, "^Zipper: index 1 is out of range"),
        (lambda s: FileOpener([], mode="w"), ValueError, "^FileOpener: .*, got w$"),
        (lambda s: graph.traverse_dps([1]), RuntimeError, "^traverse: an IterDataPipe or a MapDataPipe is expected"),
    ],
)  # fmt: skip
def test_what_is_refused(use, kind, text):
    with warnings.catch_warnings(), pytest.raises(kind, match=text):
        warnings.simplefilter("error")
        use(IterableWrapper)


def test_a_seed_for_every_pipe_that_draws():
    def order():
        stream = IterableWrapper(range(10)).shuffle()
        return list(graph_settings.apply_random_seed(stream, torch.Generator().manual_seed(7)))

    assert order() == order() and sorted(order()) == list(range(10))


class Counted(data.IterDataPipe):
    def __init__(self):
        self.resets = 0

    def reset(self):
        self.resets += 1
        self.left = iter(range(4))

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.left)


def test_iterators_reset_count_and_end_those_before():
    pipe = Counted()
    assert list(pipe) == [0, 1, 2, 3] and pipe._number_of_samples_yielded == 4 and pipe.resets == 1
    first = iter(pipe)
    assert next(first) == 0 and next(pipe) == 1 and pipe._number_of_samples_yielded == 2
    second = iter(pipe)
    with pytest.raises(RuntimeError, match="a newer iterator"):
        next(first)
    assert list(second) == [0, 1, 2, 3]


def test_branches_begin_anew_together():
    first, second = IterableWrapper(range(3)).fork(2, copy="shallow")
    assert list(first) == [0, 1, 2]
    with pytest.warns(UserWarning, match="child DataPipes are not exhausted"):
        assert list(first) == [0, 1, 2]
    assert list(second) == [0, 1, 2] and first.main_datapipe is second.main_datapipe
    assert IterableWrapper([1]).fork(1).__class__ is IterableWrapper
    with pytest.raises(ValueError, match="got 'other'$"):
        IterableWrapper([1]).fork(2, copy="other")
    with pytest.warns(UserWarning, match="Unlimited buffer"):
        IterableWrapper([1]).fork(2, buffer_size=-1)


def test_a_pickled_stream_goes_on_where_it_was():
    import pickle

    from facula.utils.data.datapipes.utils.snapshot import _simple_graph_snapshot_restoration

    one, other = IterableWrapper(range(10)).shuffle().fork(2)
    stream = one.zip(other)
    graph_settings.apply_random_seed(stream, torch.Generator().manual_seed(0))
    expected = list(stream)
    copy = pickle.loads(pickle.dumps(stream))
    _simple_graph_snapshot_restoration(copy, 3, torch.Generator().manual_seed(0))
    with pytest.raises(RuntimeError, match="^restore: the graph has been restored already"):
        _simple_graph_snapshot_restoration(copy, 3)
    assert list(copy) == expected[3:] and list(copy) != expected[3:]


def test_parts_of_parts_and_filters_of_ones_own():
    from facula.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES as kinds

    stream = IterableWrapper(range(12)).sharding_filter()
    graph_settings.apply_sharding(stream, 2, 1, kinds.DISTRIBUTED)
    graph_settings.apply_sharding(stream, 3, 2, kinds.MULTIPROCESSING)
    assert list(stream) == [5, 11]
    with pytest.raises(RuntimeError, match="^ShardingFilter: expected DEFAULT or other groups"):
        graph_settings.apply_sharding(stream, 2, 1)

    class Own(data.IterDataPipe):
        def apply_sharding(self, count, number):
            self.given = count, number

    own = Own()
    graph_settings.apply_sharding(own, 2, 1, kinds.DISTRIBUTED)
    assert own.given == (2, 1)


@pytest.mark.parametrize(
    ("function", "columns", "fits"),
    [
        (lambda a, b: a, 0, False), (lambda a, b=1: a, 0, True), (lambda *a: a, [0, 1, 2], True), (lambda a: a, [0, 1], False),
        (lambda *, a: a, 0, False), (lambda a, *, b=1: a, 0, True), (abs, 0, True), (torch.nn.ReLU(), [0, 1], False),
    ],
)  # fmt: skip
def test_functions_take_as_many_columns_as_there_are(function, columns, fits):
    if fits:
        IterableWrapper([(1, 2, 3)]).map(function, input_col=columns)
        return
    with pytest.raises(ValueError, match="expected a function of positional arguments|arguments, got input_col="):
        IterableWrapper([(1, 2, 3)]).map(function, input_col=columns)


def test_files_are_listed_and_close_themselves(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    ((path, file),) = IterableWrapper([str(tmp_path), str(tmp_path / "a.txt")]).list_files().open_files().filter(
        lambda pair: not pair[1].closed
    ).batch(2)
    assert path[1].read() == "text" and file[0].endswith("a.txt")
    inner = file[1].file_obj
    del path, file
    assert inner.closed


def test_profiles_show_pipes():
    from facula.profiler import profile

    first, _ = IterableWrapper([1, 2]).fork(2)
    with profile() as recorded:
        assert list(first) == [1, 2]
    names = {event.name for event in recorded.events()}
    assert {"enumerate(DataPipe)#IterableWrapperIterDataPipe", "enumerate(DataPipe)#_ChildDataPipe"} <= names
