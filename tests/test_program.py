"""Programs as data: the boxed table, the text form, the verifier, the interpreter, passes, and the recorder."""

import numpy as np
import op_samples
import pytest

import facula
from facula import _C

RNG_SEED = 5


def flat(value):
    """The tensors and numbers of a result, in order."""
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in flat(part)]
    return [value]


def same(a, b):
    """Whether two results are the same, bit by bit where they are tensors."""
    a, b = flat(a), flat(b)
    assert len(a) == len(b)
    for x, y in zip(a, b):
        if isinstance(x, facula.Tensor):
            assert x.dtype == y.dtype and x.shape == y.shape
            if x.dtype.is_complex:
                x, y = facula.view_as_real(x.resolve_conj()), facula.view_as_real(y.resolve_conj())
            np.testing.assert_array_equal(x.detach().numpy(), y.detach().numpy())
        else:
            assert x == y or (x != x and y != y)


# ---- the boxed table


def with_reduction(info, args, kwargs):
    """Return the keyword arguments with the table's reduction: PyTorch's functions in C++ have none by default, ATen the mean."""
    names = [a[0] for a in info["arguments"]]
    if "reduction" not in names[len(args) :]:
        return kwargs
    return {"reduction": info["arguments"][names.index("reduction")][5], **kwargs}


def boxed_arguments(info, args, kwargs):
    """Positional and keyword arguments in the order of the table."""
    names = [a[0] for a in info["arguments"]]
    given = dict(zip(names, args))
    for name, value in kwargs.items():
        given["self" if name == "input" and "self" in names else name] = value
    unknown = set(given) - set(names)
    if unknown:
        return None  # what only Python understands, such as pin_memory
    return tuple(given.get(name, default) for name, _, _, _, _, default in info["arguments"])


UNSET = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}  # memory as it was


@pytest.mark.filterwarnings("ignore")  # of deprecated ops, and of a beta
@pytest.mark.parametrize("op", op_samples.all_ops(), ids=lambda op: op.id)
def test_every_op_gives_the_same_through_the_boxed_table(op):
    info = _C._boxed_op(op.name + "." + (op.overload or "default"))
    assert len(info["results"]) == max(len(op.returns), 1)
    if op.name in UNSET or (op.name.endswith("_") and not op.name.endswith("__")):
        return
    kinds = [d for d in ("Float64", "Complex128", "Int64", "Bool", "Float32") if d in op.dtypes] or ["Float64"]
    calls = op_samples.samples(op, kinds[0].lower(), np.random.default_rng(RNG_SEED), shapes=((3, 4),))
    for args, kwargs in calls[:2]:
        kwargs = with_reduction(info, args, kwargs)
        given = boxed_arguments(info, args, kwargs)
        if given is None:
            continue
        facula.manual_seed(RNG_SEED)
        expected = op_samples.call(op, *args, **kwargs)
        facula.manual_seed(RNG_SEED)
        same(_C._boxed_call(info["key"], given), expected)


def test_forms_of_an_op():
    x, y = facula.rand(3), facula.rand(3)
    written = x.clone()
    assert _C._boxed_call("add_.default", (written, y))[0] is written
    same(written, x + y)
    out = facula.empty(3)
    assert _C._boxed_call("add.default.out", (out, x, y, 2))[0] is out
    same(out, x + 2 * y)


def test_boxed_calls_check_their_arguments():
    x = facula.rand(3)
    with pytest.raises(AttributeError, match="no op nothing.default"):
        _C._boxed_call("nothing.default", (x,))
    with pytest.raises(TypeError, match="argument 'dim' is missing"):
        _C._boxed_call("softmax.default", (x,))
    with pytest.raises(TypeError, match=r"'dim' is a int, got str"):
        _C._boxed_call("softmax.default", (x, "0"))
    with pytest.raises(TypeError, match="'self' is a Tensor, got int"):
        _C._boxed_call("exp.default", (2,))
    with pytest.raises(TypeError, match="at most 1 arguments, got 2"):
        _C._boxed_call("exp.default", (x, x))
    with pytest.raises(TypeError, match=r"'tensors' is a Tensor\[\], got int"):
        _C._boxed_call("cat.default", (3,))


def test_names_of_pytorch():
    for aten, key in [
        ("softmax.int", "softmax.default"),
        ("add.Tensor", "add.default"),
        ("add_.Tensor", "add_.default"),
        ("add.out", "add.default.out"),
        ("pow.Tensor_Scalar", "pow.default"),
        ("layer_norm.default", "layer_norm.default"),
        ("slice.Tensor", "slice.Tensor"),
        ("sym_size.int", "sym_size.int"),
    ]:
        assert _C._boxed_by_aten(aten) == key
    assert _C._boxed_by_aten("no_such.op") is None
    assert _C._boxed_op("dropout.default")["draws"]
    written = [a[0] for a in _C._boxed_op("batch_norm.default")["arguments"] if a[4]]
    assert written == ["running_mean", "running_var"]


# ---- text, verifier, interpreter

PROGRAM = """\
symbol s0 in [1, 64] sample 3
guard s0 <= 50 @ model.py:3
input user "x" %x: float32[s0, 4]
%add: float32[s0, 4] = add.default(%x, 2, 1) in "block.0" @ model.py:7
[%a: float32[s0, 2], %b: float32[s0, 2]] = split.Tensor(%add, 2, 1)
%cat: float32[2*s0, 2] = cat.default([%a, %b], 0)
%view: float32[4*s0] = view.default(%cat, [{4*s0}])
%values: float32[2], %indices: int64[2] = topk.default(%view, 2, -1, true, true)
return %view, %values, [%a, %b], 3, {s0 + 1}, none
"""


def program(text=PROGRAM):
    return _C._Program.parse(text)


def test_text_is_read_as_it_is_written():
    p = program()
    p.verify()
    assert p.text() == PROGRAM
    constants = (
        'return 1, -2.5, inf, -inf, nan, true, false, none, "a \\"b\\"\\n", complex(1.0, -2.0), dtype:bfloat16, device:cpu, '
        "device:cuda:1, layout:strided, format:channels_last, [1, 2], [1.5, 2.5], [true, false], [], {s0*s1 + 2}, "
        "[1, {max(s0, 2)}, {s0 // 4}, {s1 % 3}], 1e+300\n"
    )
    assert program(constants).text() == constants
    inputs = 'input user "n" %n: int\ninput user "m" %m: bool[2]\ninput user "b" %b: bool is true\nreturn %m\n'
    assert program(inputs).text() == inputs


def test_running():
    x = facula.arange(12.0).reshape(3, 4)
    view, values, parts, three, four, none = program().run([x])
    y = x + 2
    same(view, facula.cat(y.split(2, 1), 0).view(-1))
    same(values, facula.topk(view, 2)[0])
    same(parts, y.split(2, 1))
    assert (three, four, none) == (3, 4, None)
    assert program().run([facula.rand(7, 4)])[0].shape == (28,)


def test_gradients_flow_through_a_run():
    x = facula.rand(3, 4, requires_grad=True)
    program().run([x])[0].sum().backward()
    same(x.grad, facula.ones(3, 4))


def test_inputs_that_do_not_fit_are_named():
    for bad, text in [
        (facula.rand(3, 5), r"input 'x': expected float32\[s0, 4\], got float32\[3, 5\]"),
        (facula.rand(3, 4, dtype=facula.float64), r"expected float32\[s0, 4\], got float64\[3, 4\]"),
        (facula.rand(3), r"got float32\[3\]"),
        (3, "got int"),
        (facula.rand(65, 4), r"the size s0 must be in \[1, 64\], got 65"),
        (facula.rand(60, 4), r"recorded for sizes where s0 <= 50 \(model.py:3\), got s0 = 60"),
    ]:
        with pytest.raises(RuntimeError, match=text):
            program().run([bad])
    with pytest.raises(TypeError, match="expected 1 inputs, got 0"):
        program().run([])


GAPS = """input user "x" %x: float32[1, 1, 3, 3]
%a: float32[1], %b: float32[1], %c: float32[1] = convolution_backward.default(%x, %x, %x, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, false, false])
%y: float32[1] = OP
return %y
"""


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("sin.default(%b)", r"sin: argument 'self' is a Tensor, got None"),
        ("matmul.default(%x, %c)", r"matmul: argument 'other' is a Tensor, got None"),
        ("add.default(%x, %b, 1)", r"add: argument 'other' is a Operand, got None"),
        ("cat.default([%x, %b], 0)", r"cat: argument 'tensors' is a Tensor\[\], got None"),
    ],
)
def test_results_that_an_op_did_not_give_are_no_tensors(op, message):
    x = facula.rand(1, 1, 3, 3)
    with pytest.raises(TypeError, match=message):
        _C._Program.parse(GAPS.replace("OP", op)).run([x])
    (found,) = _C._Program.parse(GAPS.replace("OP", "index.Tensor(%x, [%b])")).run([x])
    assert facula.equal(found, x)


def test_errors_of_an_op_say_where_it_was_recorded():
    p = program('input user "i" %i: int64[1]\ninput user "x" %x: float32[3]\n'
                "%y: float32[1] = index_select.default(%x, 0, %i) @ model.py:9\nreturn %y\n")
    with pytest.raises(IndexError, match=r"\[in the program's index_select.default, recorded at model.py:9\]"):
        p.run([facula.tensor([5]), facula.rand(3)])


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("%cat, [", "%nowhere, [", "line 7: expected a value that is defined before, not 'nowhere'"),
        ("split.Tensor(", "split.Tensors(", "line 5: expected an op of the schema"),
        ("%b: float32[s0, 2]]", "%a: float32[s0, 2]]", "defined twice, got 'a'"),
        ("float32[s0, 4] = add", "float31[s0, 4] = add", "line 4: expected a dtype"),
        ("[{4*s0}]", "[{4*}]", "expression: cannot be read"),
        ("return", "retur", "line 9: expected '%'"),  # codespell:ignore
        ("symbol s0 in [1, 64] sample 3", "symbol s0 in [1, 6x] sample 3", "a number in range"),
    ],
)
def test_text_that_cannot_be_read(old, new, message):
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        program(PROGRAM.replace(old, new))


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("add.default(%x, 2, 1)", "add.default(%x, 2)", "has 2 arguments, not the 3"),
        ("add.default(%x, 2, 1)", 'add.default(%x, "2", 1)', "another value than a Operand for 'other'"),
        ("cat.default([%a, %b], 0)", "cat.default(%a, 0)", r"another value than a Tensor\[\] for 'tensors'"),
        ("split.Tensor(%add, 2, 1)", "split.Tensor(%add, [2], 1)", "another value than a int for 'split_size'"),
        ("[{4*s0}]", "[{4*s1}]", "unknown symbol 's1'"),
        ("%x: float32[s0, 4]", "%x: float32[4, 4]", "bound by inputs, not so 's0'"),
        ("symbol s0 in [1, 64]", "symbol s0 in [65, 64]", "a range that is not empty"),
        ("%values: float32[2], %indices: int64[2] =", "%values: float32[2] =", "as many results as topk"),
    ],
)
def test_programs_that_do_not_verify(old, new, message):
    broken = program(PROGRAM.replace(old, new))
    with pytest.raises(ValueError, match=message):
        broken.verify()
    with pytest.raises(ValueError, match=message):
        broken.run([facula.rand(3, 4)])


def test_damaged_texts_never_crash():
    rng = np.random.default_rng(3)
    x = facula.rand(3, 4)
    read = 0
    for _ in range(3000):
        text = list(PROGRAM)
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(len(text)))
            text[at : at + int(rng.integers(3))] = rng.choice(list('%[]{}(),: 0129sx.*/"\n'), int(rng.integers(3))).tolist()
        try:
            program("".join(text)).run([x])
            read += 1
        except (ValueError, TypeError, RuntimeError, IndexError, NotImplementedError):
            pass
    assert 0 < read < 3000


def test_expressions():
    def simplified(text):
        return program("return {" + text + "}\n").text()[8:-2].strip("{}")

    for text, expected in [
        ("s0 + s0", "2*s0"), ("s0 - s0 + 0", "0"), ("(s0 + 1)*(s0 - 1)", "-1 + s0*s0"), ("(4*s0 + 8) // 4", "s0 + 2"),
        ("s1*s0 // s1", "s0"), ("(s0*6) % 3", "0"), ("7 // 2", "3"), ("-7 // 2", "-4"), ("-7 % 3", "2"),
        ("max(2, 5) + min(s0, s0)", "s0 + 5"), ("2 + s0*3 - s0", "2*s0 + 2"), ("s0 // 2 * 2", "2*(s0 // 2)"),
    ]:  # fmt: skip
        again = simplified(expected)
        assert simplified(text) == again, text
    with pytest.raises(ValueError, match="nested more than"):
        simplified("(" * 4000 + "s0" + ")" * 4000)


# ---- passes


def test_dead_nodes_go_and_effects_stay():
    p = program(
        'input user "x" %x: float32[3]\n%a: float32[3] = exp.default(%x)\n%b: float32[3] = sin.default(%a)\n'
        "%w: float32[3] = add_.default(%x, 1, 1)\n%r: float32[3] = dropout.default(%x, 0.5, true)\n"
        "%c: float32[3] = cos.default(%a)\nreturn %c\n"
    )
    assert p.dead() is p
    assert [node[0] for node in p.nodes] == ["exp.default", "add_.default", "dropout.default", "cos.default"]
    p.verify()
    x = facula.rand(3)
    before = x.clone()
    same(p.run([x])[0], before.exp().cos())
    same(x, before + 1)


def test_constants_are_folded():
    p = program(
        'input user "x" %x: float32[3]\n%a: float32[3] = arange.default(3, dtype:float32, none)\n%b: float32[3] = exp.default(%a)\n'
        "%z: float32[3] = zeros.default([3], none, none)\n%w: float32[3] = add_.default(%z, %b, 1)\n"
        "%c: float32[3] = mul.default(%x, %b)\n%d: float32[3] = mul.default(%c, %w)\nreturn %d\n"
    )
    x = facula.rand(3)
    expected = p.run([x])[0]
    p.fold()
    p.verify()
    # what is written is made in every run
    assert [node[0] for node in p.nodes] == ["zeros.default", "add_.default", "mul.default", "mul.default"]
    same(p.run([x]), expected)
    same(p.run([x]), expected)


def test_every_op_of_the_table_has_a_key_of_its_own():
    keys = _C._boxed_keys()
    assert len(keys) == len(set(keys))
    for key in keys:
        assert f"{_C._boxed_op(key)['key']}" == key


def test_constants_on_one_memory_are_written_together():
    p = program(
        'input constant "a" %a: float32[4]\ninput constant "b" %b: float32[2]\n'
        "%c: float32[4] = add_.default(%a, 1, 1)\n%d: float32[2] = exp.default(%b)\n%e: float32[2] = sin.default(%d)\nreturn %e\n"
    )
    a = facula.zeros(4)
    p.hold(0, a), p.hold(1, a[1:3])
    p.fold()
    assert [node[0] for node in p.nodes] == ["add_.default", "exp.default", "sin.default"]
    same(p.run([])[0], facula.ones(2).exp().sin())
