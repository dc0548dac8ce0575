"""utils.benchmark: inputs made at random, which for the same seed are of the sizes and layouts that PyTorch 2.13 draws."""

import pytest

import facula
from facula.utils.benchmark import (
    Colorize,
    Compare,
    FuzzedParameter,
    FuzzedSparseTensor,
    FuzzedTensor,
    Fuzzer,
    Measurement,
    ParameterAlias,
    TaskSpec,
)


def drawn(fuzzer, count=4):
    return list(fuzzer.take(count))


def made(**options):
    parameters = [FuzzedParameter("n", 1, 64, "loguniform"), FuzzedParameter("k", 1, 9, "uniform")]
    strict = FuzzedParameter("dim", 2, 3, "uniform", strict=True)
    x = FuzzedTensor("x", ("n", "k", "k"), dim_parameter="dim", probability_contiguous=0.3, max_elements=600, min_elements=8)
    i = FuzzedTensor("i", ("k", 5), steps=("k", 2), dtype=facula.int32)
    return Fuzzer([parameters, strict], [x, [i]], [lambda values: values["n"] > 2], **options)


def test_draws_are_those_of_pytorch():
    fuzzer = made(seed=3)
    assert fuzzer.rejection_rate == 0
    rows = drawn(fuzzer)
    assert [parameters for _, _, parameters in rows] == [
        {"n": 19, "k": 9, "dim": 2}, {"n": 6, "k": 2, "dim": 3}, {"n": 3, "k": 8, "dim": 3}, {"n": 3, "k": 2, "dim": 3},
    ]  # fmt: skip
    shapes = [(tuple(t["x"].shape), t["x"].stride(), t["i"].stride()) for t, _, _ in rows]
    assert shapes == [
        ((19, 9), (1, 19), (90, 2)), ((6, 2, 2), (2, 12, 1), (2, 8)),
        ((3, 8, 8), (64, 8, 1), (8, 128)), ((3, 2, 2), (1, 6, 3), (20, 2)),
    ]  # fmt: skip
    assert fuzzer.rejection_rate == 0.5
    about = rows[3][1]
    assert about["x"]["order"].tolist() == [1, 2, 0] and about["i"] | {"order": None} == {
        "numel": 10, "order": None, "steps": (2, 2), "is_contiguous": False, "dtype": "torch.int32",
    }  # fmt: skip
    again = drawn(made(seed=3))
    assert all(facula.equal(a["x"], b["x"]) and facula.equal(a["i"], b["i"]) for (a, _, _), (b, _, _) in zip(rows, again))
    assert rows[0][0]["i"].dtype is facula.int32 and 0 <= rows[0][0]["x"].min() and rows[0][0]["x"].max() < 1


def test_values_with_probabilities_and_aliases():
    parameters = [
        FuzzedParameter("n", 4, 8, "uniform"),
        FuzzedParameter("a", distribution={ParameterAlias("n"): 0.5, 1: 0.5}),
        FuzzedParameter("never", distribution={"x": 1.0, "y": 0.0}),
        FuzzedParameter("real", 0.5, 1.5, "uniform"),
    ]
    rows = drawn(Fuzzer(parameters, [FuzzedTensor("t", ("n", "a"), probability_contiguous=1)], seed=1), 20)
    assert {p["a"] == p["n"] for _, _, p in rows} == {True, False} and all(p["a"] in (1, p["n"]) for _, _, p in rows)
    assert all(tuple(t["t"].shape) == (p["n"], p["a"]) and t["t"].is_contiguous() for t, _, p in rows)
    assert {p["never"] for _, _, p in rows} == {"x"} and all(0.5 <= p["real"] <= 1.5 for _, _, p in rows)
    assert repr(ParameterAlias("n")) == "ParameterAlias[alias_to: n]"


def test_a_constructor_of_its_own():
    def filled(size, dtype, n, **rest):
        return facula.full(size, n, dtype=dtype)

    fuzzer = Fuzzer([FuzzedParameter("n", 2, 5, "uniform")], [FuzzedTensor("t", ("n", 3), tensor_constructor=filled)], seed=0)
    assert all((t["t"] == p["n"]).all() for t, _, p in drawn(fuzzer))
    flags = FuzzedTensor.default_tensor_constructor((50,), facula.bool)
    assert flags.dtype is facula.bool and flags.any() and not flags.all()


def test_sparse_tensors():
    names = "density coalesced sparse_dim".split()
    bounds = {"density": (0.1, 0.9), "coalesced": (0, 1), "sparse_dim": (1, 2)}
    parameters = [FuzzedParameter("n", 1, 64, "loguniform"), *(FuzzedParameter(name, *bounds[name], "uniform") for name in names)]
    rows = drawn(Fuzzer(parameters, [FuzzedSparseTensor("s", ("n", 7), **{name: name for name in names})], seed=1))
    found = [(tuple(t["s"].shape), t["s"].sparse_dim(), t["s"].is_coalesced()) for t, _, _ in rows]
    assert found == [((20, 7), 2, True), ((1, 7), 2, False), ((4, 7), 1, False), ((5, 7), 1, True)]
    assert rows[1][0]["s"]._nnz() == 4 and rows[2][0]["s"]._nnz() == 10  # twice what coalesced ones have at most
    about = rows[2][1]["s"]
    assert (about["numel"], about["shape"], about["sparse_dim"], about["dense_dim"]) == (28, (4, 7), 1, 1)
    assert about["is_hybrid"] and about["sparsity"] == 1 - about["density"] and about["density"] == rows[2][2]["density"]


N = FuzzedParameter("n", 1, 9, "uniform")


@pytest.mark.parametrize(
    ("use", "kind", "text"),
    [
        (lambda: FuzzedParameter("n", 1, 2, "normal"), ValueError, "got 'normal'$"),
        (lambda: FuzzedParameter("n", 2, 1, "uniform"), ValueError, "got 2 and 1$"),
        (lambda: FuzzedParameter("n", 0, 1, "loguniform"), ValueError, "got 0 and 1$"),
        (lambda: FuzzedParameter("n", 1, distribution={1: 1.0}), ValueError, "got 1 and None$"),
        (lambda: FuzzedParameter("n", distribution={1: 0.5}), ValueError, r"add up to 1, got \{1: 0.5\}$"),
        (lambda: Fuzzer([N, N], []), ValueError, r"got \['n'\] more than once$"),
        (lambda: Fuzzer([[3]], []), TypeError, "^Fuzzer: FuzzedParameters are needed, got int$"),
        (lambda: drawn(Fuzzer([N], [], [lambda values: False])), ValueError, "^Fuzzer: .* got 1000 draws"),
        (lambda: drawn(Fuzzer([N], [FuzzedTensor("x", ("m",))])), ValueError, "'x' are numbers or names, got 'm'$"),
        (lambda: drawn(Fuzzer([N], [FuzzedTensor("x", (-1,))])), ValueError, "got -1$"),
        (lambda: drawn(Fuzzer([FuzzedParameter("a", distribution={ParameterAlias("a"): 1})], [])), ValueError, "of 'a'$"),
        (lambda: drawn(Fuzzer([FuzzedParameter("d", 2, 2, "uniform")], [FuzzedSparseTensor("s", (3,), density="d")])),
         ValueError, "from 0 to 1, got 2$"),
        (lambda: FuzzedSparseTensor.sparse_tensor_constructor((0, 3), facula.float32, 1, 2, True), ValueError, r"for \(0, 3\)$"),
    ],
)  # fmt: skip
def test_what_is_refused(use, kind, text):
    with pytest.raises(kind, match=text):
        use()


def test_the_best_of_a_row_or_a_column_has_color():
    assert [each.value for each in Colorize] == ["none", "columnwise", "rowwise"]
    times = {("small", "old"): 1e-6, ("small", "new"): 2e-6, ("large", "old"): 3e-6, ("large", "new"): 4e-6}
    results = [
        Measurement(10, [10 * seconds], TaskSpec("x", "pass", label="L", sub_label=size, description=age))
        for (size, age), seconds in times.items()
    ]
    table = Compare(results)
    assert "\033" not in str(table)
    for rowwise, best in ((False, ["1.0", "2.0"]), (True, ["1.0", "3.0"])):
        table.colorize(rowwise=rowwise)
        colored = [part.split("\033")[0].strip() for part in str(table).split("\033[1m")[1:]]
        assert colored == best
