"""Extensions in C++: modules by pybind11, operators by TORCH_LIBRARY, setup.py; what they are compiled with and when."""

import subprocess
import sysconfig
from pathlib import Path

import numpy
import pytest
from cpp_extension_compiler import REASON

import facula
from facula.utils import cpp_extension

pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

OPERATORS = """
#include <ATen/ATen.h>
#include <torch/library.h>

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor scaled(const Tensor& x, double by, at::IntArrayRef dims) {
  TORCH_CHECK(x.device().is_cpu());
  auto out = torch::empty_like(x.contiguous());
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "scaled", [&] {
    const auto* from = x.contiguous().data_ptr<scalar_t>();
    auto* to = out.data_ptr<scalar_t>();
    for (int64_t i = 0; i < x.numel(); ++i) {
      to[i] = from[i];
      to[i] *= static_cast<scalar_t>(by);
    }
  });
  return dims.empty() ? out : out.sum(dims);
}
void double_(Tensor& x) { x.mul_(2); }
std::tuple<Tensor, int64_t> counted(const std::vector<Tensor>& list, const std::optional<Tensor>& more, std::string word) {
  Tensor sum = more.value_or(torch::zeros({}));
  for (const auto& each : list) sum = sum + each.sum();
  return {sum, static_cast<int64_t>(word.size())};
}
Tensor squared(const Tensor& x) { return x * x; }
Tensor add_int(const Tensor& x, int64_t y) { return x + y; }
Tensor add_tensor(const Tensor& x, const Tensor& y) { return x + y; }

struct Cubed : torch::autograd::Function<Cubed> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    at::AutoDispatchBelowADInplaceOrView below;
    static auto op = c10::Dispatcher::singleton().findSchemaOrThrow("tests_ext::cubed", "").typed<Tensor(const Tensor&)>();
    context->save_for_backward({x});
    return op.call(x);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto x = context->get_saved_variables()[0];
    return {grads[0] * 3 * x * x};
  }
};

TORCH_LIBRARY(tests_ext, m) {
  m.def("scaled(Tensor x, float by=2.0, *, int[] dims=[]) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.def("double_(Tensor(a!) x) -> ()");
  m.def("counted", &counted);
  m.def("squared(Tensor x) -> Tensor", &squared);
  m.def("cubed(Tensor x) -> Tensor");
  m.def("add.int(Tensor x, int y) -> Tensor", &add_int);
  m.def("add.Tensor(Tensor x, Tensor y) -> Tensor", &add_tensor);
  m.def("nothing(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(tests_ext, CPU, m) {
  m.impl("scaled", &scaled);
  m.impl("double_", TORCH_FN(double_));
  m.impl("cubed", [](const Tensor& x) { return x * x * x; });
}
TORCH_LIBRARY_IMPL(tests_ext, Autograd, m) {
  m.impl("cubed", [](const Tensor& x) { return Cubed::apply(x); });
}
TORCH_LIBRARY_FRAGMENT(tests_ext, m) { m.def("more(Tensor x) -> Tensor", &squared); }
"""

MODULE = """
#include <torch/extension.h>

struct Cubed : torch::autograd::Function<Cubed> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x.pow(3);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
    const auto x = context->get_saved_variables()[0];
    return {grads[0] * 3 * x * x};
  }
};

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("same", [](torch::Tensor x) { return x; });
  m.def("maybe", [](c10::optional<at::Tensor> x) { return x; });
  m.def("parts", [](std::vector<torch::Tensor> list) { return list; });
  m.def("dtype", [](torch::Dtype t) { return t; });
  m.def("device", [](torch::Device d) { return d; });
  m.def("sizes", [](at::IntArrayRef sizes) { return sizes.vec(); });
  m.def("number", [](const c10::Scalar& s) { return s; });
  m.def("cubed", [](torch::Tensor x) { return Cubed::apply(x); });
  m.def("element", [](torch::Tensor x, int i) { return x.packed_accessor32<float, 1>()[i]; });
  m.def("describe", [](torch::Tensor x) { return x.type().toString(); });
  m.def("index_error", [] { TORCH_CHECK_INDEX(false, "element 9 is not there"); });
  m.def("value_error", [] { TORCH_CHECK_VALUE(false, "no such value"); });
  m.def("check", [](int n) { TORCH_CHECK(n > 0, "a positive number is expected, got ", n); });
  m.def("standard_error", [] { throw std::runtime_error("from the standard library"); });
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("extension")


@pytest.fixture(scope="module")
def extension(folder):
    pytest.importorskip("pybind11")
    (folder / "module.cpp").write_text(MODULE)
    return cpp_extension.load("tests_ext_module", folder / "module.cpp", extra_cflags=["-O0", "-std=c++17"], build_directory=folder / "module")


@pytest.fixture(scope="module")
def ops(folder):
    (folder / "operators.cpp").write_text(OPERATORS)
    given = {"extra_cflags": ["-O0"], "build_directory": folder / "operators", "is_python_module": False}
    assert cpp_extension.load("tests_ext", folder / "operators.cpp", **given) is None
    return facula.ops.tests_ext


# ---- modules


@pytest.mark.slow
def test_a_tensor_comes_back_as_the_same_object(extension):
    x = facula.randn(3, requires_grad=True)
    x.mark = 1
    assert extension.same(x) is x and extension.maybe(x) is x and extension.parts([x, x])[1] is x
    assert extension.maybe(None) is None
    parameter = facula.nn.Parameter(facula.ones(2))
    assert extension.same(parameter) is parameter


def test_other_values(extension):
    assert extension.dtype(facula.float16) is facula.float16
    assert extension.device(facula.device("cpu")) == facula.device("cpu")
    assert extension.sizes(facula.ones(2, 3).shape) == [2, 3] and extension.sizes([4]) == [4]
    assert [extension.number(v) for v in (2, 2.5, True)] == [2, 2.5, True] and extension.number(True) is True
    assert extension.element(facula.tensor([1.0, 2.0]), 1) == 2.0
    assert extension.describe(facula.ones(1)) == "CPUFloatType"


def test_wrong_arguments_and_errors(extension):
    with pytest.raises(TypeError, match="torch.Tensor"):
        extension.same(3)
    with pytest.raises(TypeError):
        extension.dtype("float32")
    with pytest.raises(IndexError, match="element 9 is not there"):
        extension.index_error()
    with pytest.raises(ValueError, match="no such value"):
        extension.value_error()
    with pytest.raises(RuntimeError, match="a positive number is expected, got -1"):
        extension.check(-1)
    with pytest.raises(RuntimeError, match="from the standard library"):
        extension.standard_error()
    with pytest.raises(RuntimeError, match="expected scalar type Float, got Int"):
        extension.element(facula.ones(2, dtype=facula.int32), 0)


@pytest.mark.slow
def test_a_function_with_a_derivative_in_cpp(extension, ops):
    for cubed in (extension.cubed, ops.cubed):
        x = facula.tensor([1.0, 2.0], requires_grad=True)
        y = cubed(x)
        assert y.tolist() == [1.0, 8.0]
        y.sum().backward()
        assert x.grad.tolist() == [3.0, 12.0]


# ---- operators


def test_arguments_are_bound_by_the_schema(ops):
    x = facula.ones(2, 3)
    assert ops.scaled(x).sum() == 12 and ops.scaled(x, 3).sum() == 18 and ops.scaled.default(x, by=0.5).sum() == 3
    assert ops.scaled(x=x, dims=[0]).tolist() == [4, 4, 4] and ops.scaled(x.half(), 0.5).tolist() == [[0.5] * 3] * 2
    for args, kwargs, why in [
        ((), {}, "argument 'x' is missing"),
        ((x, 1.0, [0]), {}, "at most 2 arguments by position"),
        ((x,), {"x": x}, "one value for argument 'x'"),
        ((x,), {"other": 1}, "others by keyword"),
        (("text",), {}, "argument 'x' is a Tensor"),
        ((x, "text"), {}, "argument 'by' is a float"),
        ((x,), {"dims": [0.5]}, "argument 'dims'"),
    ]:
        with pytest.raises(TypeError, match=f"tests_ext::scaled.*{why}"):
            ops.scaled(*args, **kwargs)
    with pytest.raises(NotImplementedError, match="\"scaled\" not implemented for 'Int'"):
        ops.scaled(facula.ones(2, dtype=facula.int32))
    with pytest.raises(NotImplementedError, match="tests_ext::nothing"):
        ops.nothing(x)
    with pytest.raises(AttributeError, match="no operator 'missing'"):
        ops.missing  # noqa: B018


def test_inferred_schemas_lists_and_overloads(ops):
    total, count = ops.counted([facula.ones(2), facula.ones(3)], None, "four")
    assert total == 5 and count == 4
    assert ops.counted([], facula.tensor(7.0), "")[0] == 7
    x = facula.ones(2)
    assert ops.add(x, 2).tolist() == [3, 3] and ops.add(x, x).tolist() == [2, 2]
    assert ops.add.Tensor(x, x).tolist() == [2, 2] and sorted(ops.add.overloads()) == ["Tensor", "int"]
    with pytest.raises(TypeError, match="tests_ext::add.int"):
        ops.add.int(x, x)
    assert ops.more(x).tolist() == [1, 1]


def test_writes_are_counted(ops):
    x = facula.ones(2)
    before = x._version
    assert ops.double_(x) is None
    assert x.tolist() == [2, 2] and x._version > before


def test_derivatives(ops):
    x = facula.ones(2, requires_grad=True)
    with pytest.raises(Exception, match="test_autograd_registration failed"):
        facula.library.opcheck(ops.scaled.default, (x,), test_utils="test_autograd_registration")
    ops.squared(x * 3).sum().backward()  # a composite: its own ops are recorded
    assert x.grad.tolist() == [18, 18]
    y = ops.scaled(x)
    assert y.requires_grad
    with pytest.raises(RuntimeError, match="tests_ext::scaled: backward needs a derivative and none is registered"):
        y.sum().backward()


def test_examples_of_a_batch_and_conjugates(ops):
    with pytest.warns(UserWarning):
        y = facula.vmap(lambda row: ops.scaled(row, 3.0))(facula.ones(2, 3))
    assert y.shape == (2, 3) and y.sum() == 18
    z = facula.tensor([1 + 2j])
    assert ops.add(z.conj(), 0)[0] == 1 - 2j


def test_registrations_in_python_go_with_kernels_in_cpp(ops):
    def backward(ctx, grad):
        assert ctx.needs_input_grad[:2] == (True, False)
        return grad * ctx.by, None

    def setup_context(ctx, inputs, output, keyword_only_inputs):
        ctx.by = inputs[1]
        assert list(keyword_only_inputs) == ["dims"]

    definition = facula.library._operator("tests_ext::scaled")
    facula.library.register_autograd("tests_ext::scaled", backward, setup_context=setup_context)
    facula.library.register_fake("tests_ext::scaled", lambda x, by=2.0, *, dims=(): facula.empty_like(x))
    facula.library.register_autocast("tests_ext::scaled", "cpu", facula.float32)
    try:
        x = facula.ones(2, requires_grad=True)
        ops.scaled(x, 5.0).sum().backward()
        assert x.grad.tolist() == [5, 5]
        assert ops.scaled(facula.empty(4, device="meta")).shape == (4,)
        with facula.autocast("cpu", facula.bfloat16):
            assert ops.scaled(facula.ones(2, dtype=facula.bfloat16)).dtype == facula.float32
        assert set(facula.library.opcheck(ops.scaled.default, (x, 5.0)).values()) == {"SUCCESS"}
    finally:
        definition._backward = definition._setup_context = definition._fake = None
        definition._casts.clear()
        definition.__dict__.pop("_function", None)


def test_a_program_runs_with_the_library_and_without_python(ops, folder, tmp_path):
    class Model(facula.nn.Module):
        def forward(self, x):
            return facula.ops.tests_ext.scaled(x.relu(), 3.0, dims=[0]) + 1

    program = facula.export.export(Model(), (facula.ones(2, 3),))
    assert "tests_ext" in str(program.graph)
    path = tmp_path / "model.pt2"
    facula.export.save(program, path)
    x = facula.randn(2, 3)
    loaded = facula.export.load(path).module()
    assert facula.equal(loaded(x), Model()(x))
    places = (Path(facula._C.__file__).resolve().parent, Path(sysconfig.get_path("scripts")))
    command = next(place / "facula-run" for place in places if (place / "facula-run").exists())
    numpy.save(tmp_path / "x.npy", x.numpy())
    run = [command, path, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npz"]
    missing = subprocess.run(run, capture_output=True, text=True)
    assert missing.returncode == 1 and "tests_ext::scaled" in missing.stderr and "--library" in missing.stderr
    done = subprocess.run([*run, "--library", folder / "operators" / "tests_ext.so"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (y,) = numpy.load(tmp_path / "y.npz").values()
    assert numpy.array_equal(y, Model()(x).numpy())


# ---- what is wrong with registrations

MISTAKES = """
#include <torch/library.h>
using torch::Tensor;
Tensor two(const Tensor& x, const Tensor& y) { return x; }
TORCH_LIBRARY(tests_mistakes, m) {
  m.def("good(Tensor x) -> Tensor", [](const Tensor& x) { return x; });
  m.def("one(Tensor x) -> Tensor");
  m.impl("one", &two);
}
TORCH_LIBRARY_FRAGMENT(tests_mistakes, m) { m.def("bad(Tensor[ x) -> Tensor"); }
TORCH_LIBRARY_FRAGMENT(tests_mistakes, m) { m.def("odd(Dict(str, int) x) -> Tensor"); }
TORCH_LIBRARY_IMPL(tests_mistakes, CPU, m) { m.impl("late", &two); }
TORCH_LIBRARY_FRAGMENT(tests_mistakes, m) { m.def("late(Tensor x, float y) -> Tensor"); }
namespace other {
TORCH_LIBRARY(tests_mistakes, m) { m.def("again(Tensor x) -> Tensor"); }
}
"""


def test_mistakes_in_registrations_are_told_when_the_library_is_loaded(tmp_path):
    source = tmp_path / "mistakes.cpp"
    source.write_text(MISTAKES)
    with pytest.raises(RuntimeError) as caught:
        cpp_extension.load("tests_mistakes", source, extra_cflags=["-O0"], build_directory=tmp_path, is_python_module=False)
    text = str(caught.value)
    for part in (
        "tests_mistakes::one, declared as 'one(Tensor x) -> Tensor': a function of 1 arguments is expected, got one of 2",
        "schema 'bad(Tensor[ x) -> Tensor'",
        "schema 'odd(Dict(str, int) x) -> Tensor': a type that operators can take here is expected",
        "tests_mistakes::late, declared as 'late(Tensor x, float y) -> Tensor': argument y: float is expected, got Tensor",
        "one library for the namespace 'tests_mistakes' is expected",
    ):
        assert part in text
    assert facula.ops.tests_mistakes.good(facula.ones(1)) == 1
    with pytest.raises(AttributeError, match="no operator 'bad'"):
        facula.ops.tests_mistakes.bad  # noqa: B018


def test_load_library_refuses_what_is_no_library(tmp_path):
    path = tmp_path / "no_library.so"
    path.write_text("no library")
    with pytest.raises(OSError, match="load_library: .*no_library.so"):
        facula.ops.load_library(path)
