"""Tools for authors of operators: schemas by annotations, `opcheck`, kernels by key, shape functions."""
# ruff: noqa: UP006, UP007, UP035, UP045 (programs write annotations so)

from typing import List, Optional, Sequence, Tuple, Union

import pytest

import facula as torch
from facula._operators import opcheck
from facula.utils._python_dispatch import TorchDispatchMode

library = torch.library


def several(
    x: torch.Tensor, y: Optional[torch.Tensor], n: int = 3, s: float = 1.0, many: Sequence[int] = None, flag: bool = False,
    dtype: torch.dtype = torch.float32, text: str = "a",
) -> Tuple[torch.Tensor, torch.Tensor]: ...  # fmt: skip


def lists(x: torch.Tensor, *, ys: List[torch.Tensor], q: Union[int, float, bool] = 2) -> None: ...


def new_words(x: list[torch.Tensor], k: int | None, z: Sequence[Optional[torch.Tensor]]) -> list[torch.Tensor]: ...


@pytest.mark.parametrize(
    ("function", "more", "schema"),
    [
        (
            several, {"mutates_args": ()},
            "(Tensor x, Tensor? y, SymInt n=3, float s=1.0, SymInt[] many=None, bool flag=False, ScalarType dtype=float32, "
            'str text="a") -> (Tensor, Tensor)',
        ),
        (lists, {"mutates_args": {"x"}}, "(Tensor(a0!) x, *, Tensor[] ys, Scalar q=2) -> ()"),
        (lists, {"mutates_args": "unknown", "op_name": "n"}, "n(Tensor(a0!) x, *, Tensor(a1!)[] ys, Scalar q=2) -> ()"),
        (new_words, {"mutates_args": ()}, "(Tensor[] x, SymInt? k, Tensor?[] z) -> Tensor[]"),
    ],
)  # fmt: skip
def test_infer_schema(function, more, schema):
    assert library.infer_schema(function, **more) == schema


def no_annotation(x) -> torch.Tensor: ...


def any_number(x: torch.Tensor, *a: int) -> torch.Tensor: ...


def a_dict(x: torch.Tensor, k: dict) -> torch.Tensor: ...


def gives_a_set(x: torch.Tensor) -> set: ...


@pytest.mark.parametrize(
    ("function", "mutates", "text"),
    [
        (no_annotation, (), "the parameter 'x' must be annotated with its type"),
        (any_number, (), "by name and by position, without "),
        (a_dict, (), "the type of the parameter 'k' has no form in a schema, <class 'dict'>"),
        (lists, {"w"}, "mutates_args names parameters"),
        (lists, {"q"}, "mutates_args names tensors and lists of them, but 'q' is none"),
        (gives_a_set, (), "the type of the result has no form in a schema, got <class 'set'>"),
    ],
)
def test_infer_schema_refuses(function, mutates, text):
    with pytest.raises(ValueError, match=rf"^infer_schema: .*{text}"):
        library.infer_schema(function, mutates_args=mutates)


@pytest.fixture(scope="module")
def square():
    @library.custom_op("library_checks::square", mutates_args=())
    def square(x: torch.Tensor) -> torch.Tensor:
        return x * x

    @square.register_fake
    def _(x):
        return torch.empty_like(x)

    square.register_autograd(
        lambda ctx, grad: grad * 2 * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return square


@pytest.fixture(scope="module")
def wrong():
    @library.custom_op("library_checks::wrong", mutates_args=())
    def wrong(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    wrong.register_fake(lambda x: x.new_empty(7))
    return wrong


def test_opcheck_finds_nothing(square):
    everything = dict.fromkeys(
        ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"), "SUCCESS"
    )
    for op in (square, torch.ops.library_checks.square.default):
        assert library.opcheck(op, (torch.ones(3),)) == everything
        assert library.opcheck(op, (torch.ones(3, requires_grad=True),)) == everything
        assert library.opcheck(op, (torch.ones(3),), test_utils="test_schema") == {"test_schema": "SUCCESS"}


def test_opcheck_finds_what_is_wrong(wrong):
    found = library.opcheck(wrong, (torch.ones(3),), raise_exception=False)
    assert "x is written to" in str(found["test_schema"]) and "(7,)" in str(found["test_faketensor"])
    with pytest.raises(opcheck.OpCheckError, match="test_schema failed"):
        library.opcheck(wrong, (torch.ones(3),))
    with pytest.raises(ValueError, match="got nope$"):
        library.opcheck(wrong, (torch.ones(3),), test_utils="nope")


def test_opcheck_finds_ops_that_lose_gradients():
    lib = library.Library("library_checks_of_gradients", "DEF")
    lib.define("lose(Tensor x) -> Tensor")
    lib.impl("lose", lambda x: x.detach() * 2, "Autograd")
    lib.impl("lose", lambda x: x * 2, "CPU")
    given = (torch.ones(3, requires_grad=True),)
    with pytest.raises(opcheck.OpCheckError, match="test_autograd_registration failed: .* the op has none$"):
        library.opcheck(torch.ops.library_checks_of_gradients.lose, given, test_utils=["test_autograd_registration"])


def test_shape_functions_run_for_tensors_without_values(square, wrong):
    mode = torch._subclasses.FakeTensorMode()
    fake = wrong(mode.from_tensor(torch.ones(3)))
    assert fake.shape == (7,) and isinstance(fake, torch._subclasses.FakeTensor)
    with mode, mode:  # within itself a mode is one
        assert wrong(mode.from_tensor(torch.ones(3))).shape == (7,)
        assert torch.ones(2).fake_mode is mode
    assert not hasattr(torch.ones(2), "fake_mode")
    assert wrong(torch.ones(3, device="meta")).shape == (7,)
    y = square(torch.ones(3, device="meta", requires_grad=True))
    assert y.is_meta and y.requires_grad and square(torch.full((2,), 3.0)).tolist() == [9, 9]


def test_kernels_by_key():
    lib = library.Library("library_checks_of_kernels", "DEF")
    lib.define("twice(Tensor x) -> Tensor")
    lib.impl("twice", lambda x: x * 2, "CPU")
    kernel = library.get_kernel("library_checks_of_kernels::twice", "CPU")
    assert kernel.call_boxed(None, torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="^get_kernel: no kernel is registered for CUDA"):
        library.get_kernel("library_checks_of_kernels::twice", "CUDA")


def test_schemas_of_operators_made_in_python():
    @torch.library.custom_op("schema_ops::scaled", mutates_args=("x",))
    def scaled(x: torch.Tensor, by: float = 1.5) -> torch.Tensor:
        return x * by

    library = torch.library.Library("schema_ops", "FRAGMENT")
    library.define("pair(Tensor x, int n=3, *, str? s=None) -> (Tensor, Tensor[])")
    operators = torch.ops.schema_ops
    assert operators.scaled.default._schema == "schema_ops::scaled(Tensor(a0!) x, float by=1.5) -> Tensor"
    assert operators.pair.default._schema == "schema_ops::pair(Tensor x, int n=3, *, str? s=None) -> (Tensor, Tensor[])"
    assert operators.scaled is operators.scaled


def test_kernels_are_given_to_a_library():
    library = torch.library.Library("checked_shop", "DEF")
    library.define("total(Tensor self) -> Tensor")

    @torch.library.impl(library, "total", "CPU")
    def total(x):
        return x.sum()

    @torch.library.define(library, "twice(Tensor self) -> Tensor", alias_analysis="CONSERVATIVE")
    def twice(x):
        return 2 * x

    assert torch.ops.checked_shop.total(torch.ones(3)) == 3 and torch.ops.checked_shop.twice(torch.ones(1)) == 2
    assert total(torch.ones(2)) == 2
    with pytest.raises(TypeError, match="expected a callable as fn, got list"):
        library.impl("total", [], "CPU")
    with pytest.raises(RuntimeError, match="dispatch_key must be that of the Library"):
        torch.library.Library("checked_shop", "IMPL", "CPU").impl("total", total, "Meta")
    with pytest.raises(ValueError, match="kind must be DEF, IMPL or FRAGMENT"):
        torch.library.Library("checked_shop", "BLA")


def test_kernels_of_built_in_operators_are_not_taken_silently():
    library = torch.library.Library("aten", "IMPL")
    for register in (
        lambda: library.impl("aten::neg", torch.abs, "CPU"),
        lambda: torch.library.impl("aten::neg", "cpu", torch.abs),
        lambda: torch.library.register_kernel("aten::neg", "cpu", torch.abs),
    ):
        with pytest.raises(NotImplementedError, match="own operators are not replaced .*, got aten::neg"):
            register()


def test_modes_and_classes_see_an_operator_of_a_program_as_one():
    seen = []

    @torch.library.custom_op("checked_shop::shown", mutates_args=())
    def shown(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
        return x.sin() * factor

    torch.library.register_autograd("checked_shop::shown", lambda ctx, g: (g, None))

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, requires_grad=True)
    with Watch():
        y = shown(x)
        with torch.no_grad():
            torch.ops.checked_shop.shown(x, 3.0)
    assert seen == ["checked_shop.shown.default"] * 2
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]

    class Kept(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*(a.plain if isinstance(a, cls) else a for a in args), **(kwargs or {}))

    kept = torch.Tensor._make_wrapper_subclass(Kept, (2,))
    kept.plain = torch.zeros(2)
    seen.clear()
    assert shown(kept).tolist() == [0, 0] and seen[0] == "checked_shop.shown.default"
