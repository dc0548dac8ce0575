"""Settings and names around compiled functions: what programs set, and where they look."""

import importlib
import io
import pickle
import subprocess
import sys

import pytest

import facula
from facula import _dynamo
from facula._dynamo import config, exc

SETTINGS = ["_dynamo.config", "_inductor.config", "_functorch.config", "compiler.config"]


@pytest.fixture(params=SETTINGS)
def settings(request):
    module = importlib.import_module(f"facula.{request.param}")
    assert module._path() == f"torch.{request.param}"
    before = module.get_config_copy()
    yield module
    for name, value in before.items():
        module._set(name, value)


def test_settings_keep_their_values(settings):
    for name, value in settings.get_config_copy().items():
        with settings.patch(name, "other"):
            assert settings._get(name) == "other", name
        assert settings._get(name) == value, name
    assert settings.codegen_config() == ""
    assert set(dir(settings)) == settings.get_config_copy().keys()


def test_settings_are_saved_and_loaded(settings):
    name, value = next((name, value) for name, value in settings.get_config_copy().items() if value is False)
    saved, hashed = settings.save_config(), settings.get_hash()
    settings.load_config({name: True})
    assert settings._get(name) is True and settings.get_hash() != hashed and pickle.loads(saved)[name] is value
    if name in settings._defaults:
        assert settings.codegen_config() == f"{settings._path()}.{name} = True"
    settings.load_config(saved)
    assert settings._get(name) is False and settings.get_hash() == hashed


def test_settings_that_there_are_not(settings):
    path = settings._path()
    for use in (
        lambda: settings.nope, lambda: setattr(settings, "nope", 1), lambda: settings.patch("nope", 1),
        lambda: settings.patch({"nope": 1}), lambda: settings.patch(nope=1), lambda: settings.load_config({"nope": 1}),
    ):  # fmt: skip
        with pytest.raises(AttributeError, match=f"^{path}: there is no such setting, got 'nope'"):
            use()
    assert not hasattr(settings, "nope") and getattr(settings, "nope", 3) == 3


def test_settings_in_groups():
    inductor = facula._inductor.config
    assert not inductor.triton.cudagraphs and inductor.cpp.threads == -1
    with inductor.patch({"triton.cudagraphs": True}), inductor.patch("cpp.threads", 2):
        assert inductor.triton.cudagraphs and inductor.cpp.threads == 2
    assert not inductor.triton.cudagraphs
    inductor.triton.unique_kernel_names = False
    assert inductor._get("triton.unique_kernel_names") is False
    del inductor.max_autotune
    inductor._set("triton.unique_kernel_names", True)
    with pytest.raises(AttributeError, match="^torch._inductor.config.triton: there is no such setting, got 'nope'"):
        inductor.triton.nope = 1
    with pytest.raises(AttributeError, match=r"triton: .*got 'cudagraph'. Did you mean: 'cudagraphs'\?$"):
        assert inductor.triton.cudagraph


def test_second_names():
    before = config.recompile_limit
    assert before == 64
    with config.patch(cache_size_limit=3):
        assert config.recompile_limit == config.cache_size_limit == facula.compiler.config.recompile_limit == 3
        facula.compiler.config.recompile_limit = 5
        assert config.cache_size_limit == 5
    assert config.recompile_limit == before

    @config.patch(verbose=True)
    def within():
        return config.verbose, facula.compiler.config.verbose

    assert within() == (True, True) and within() == (True, True) and not config.verbose


def test_values_are_copies():
    config.get_config_copy()["traceable_tensor_subclasses"].add(1)
    assert config.traceable_tensor_subclasses == set()


# name -> the class that PyTorch 2.13 derives it from
ERRORS = {
    "TorchDynamoException": RuntimeError,
    "Unsupported": exc.TorchDynamoException,
    "UserError": exc.Unsupported,
    "InternalTorchDynamoError": exc.TorchDynamoException,
    "RestartAnalysis": exc.TorchDynamoException,
    "SpeculationRestartAnalysis": exc.RestartAnalysis,
    "TensorifyScalarRestartAnalysis": exc.RestartAnalysis,
    "SkipFrame": exc.TorchDynamoException,
    "TorchRuntimeError": exc.TorchDynamoException,
    "InvalidBackend": exc.TorchDynamoException,
    "ResetRequired": exc.TorchDynamoException,
    "ShortenTraceback": exc.TorchDynamoException,
    "BackendCompilerFailed": exc.ShortenTraceback,
    "RecompileError": exc.TorchDynamoException,
    "CondOpArgsMismatchError": exc.TorchDynamoException,
    "UncapturedHigherOrderOpError": exc.TorchDynamoException,
    "InfiniteGeneratorError": exc.TorchDynamoException,
    "PackageError": exc.TorchDynamoException,
    "ObservedException": exc.TorchDynamoException,
    "StepUnsupported": exc.TorchDynamoException,
    "ResumePrologueTracingError": exc.TorchDynamoException,
    "FailOnRecompileLimitHit": Exception,
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_have_the_bases_that_programs_catch(name):
    kind = getattr(exc, name)
    assert kind.__bases__ == (ERRORS[name],) and kind.__module__ == "facula.compiler._errors"


def test_errors_carry_what_happened():
    error = exc.BackendCompilerFailed(test_errors_carry_what_happened, ValueError("boom"), None)
    assert str(error).endswith("raised ValueError: boom") and isinstance(error.inner_exception, ValueError)
    assert error.backend_name == "test_errors_carry_what_happened"
    user = exc.UserError(exc.UserErrorType.ANTI_PATTERN, "so not", case_name="c")
    assert user.error_type is exc.UserErrorType.ANTI_PATTERN and str(user) == "so not" and user.case_name == "c"
    assert "reset()" in str(exc.ResetRequired()) and exc.RestartAnalysis(restart_reason="x").restart_reason == "x"
    with pytest.raises(exc.Unsupported, match="kind\nbecause\nwhat\nhint: do") as caught:
        exc.unimplemented(gb_type="kind", context="what", explanation="because", hints=["do"], from_exc=KeyError("k"))
    assert caught.value.gb_type == "kind" and isinstance(caught.value.__cause__, KeyError)


def test_names_by_which_programs_reach_it():
    program = """
import torch
from torch._dynamo import OptimizedModule, allow_in_graph, assume_constant_result, mark_static_address
from torch._dynamo.eval_frame import OptimizedModule as same
from torch._dynamo.testing import CompileCounter
from torch._dynamo.utils import counters, detect_fake_mode, is_compile_supported, warn_once
from torch._dynamo.test_case import TestCase
from torch._dynamo.exc import TensorifyScalarRestartAnalysis, InvalidBackend
from torch._dynamo.backends.registry import register_backend
from torch._inductor import config as inductor_config
import torch._inductor.config, torch._functorch.config, torch._logging, torch.compiler.config
assert same is OptimizedModule and isinstance(torch.compile(torch.nn.ReLU()), same)
assert torch._dynamo.config.capture_scalar_outputs is False and torch._utils.is_compiling() is False
assert torch._disable_dynamo(len).__wrapped__ is len and torch._dynamo.eval_frame.disable(max)(1, 2) == 2
assert torch._dynamo.is_dynamo_supported() and torch._dynamo.is_inductor_supported() and is_compile_supported("cpu")
assert torch.compile(lambda: torch._utils.is_compiling())()
torch._inductor.config.coordinate_descent_tuning = inductor_config.triton.unique_kernel_names = True
torch._inductor.cudagraph_mark_step_begin()
assert "reduce-overhead" in torch._inductor.list_mode_options() and "max_autotune" in torch._inductor.list_options()
torch._functorch.config.donated_buffer = False
torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)(print)("yes")
"""
    done = subprocess.run([sys.executable, "-m", "facula", "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "yes\n", done.stderr


@pytest.mark.parametrize(
    ("variables", "told", "silent"),
    [
        ({"TORCH_LOGS": "graph_breaks"}, "[__graph_breaks]", "[__output_code]"),
        ({"TORCH_LOGS": "+dynamo,output_code,recompiles"}, "[__output_code]", "[__graph_breaks]"),
        ({"TORCH_LOGS": "-graph_breaks,output_code", "TORCH_LOGS_OUT": "{file}"}, "[__output_code]", "[__graph_breaks]"),
        ({"TORCH_LOGS": "nope"}, "ValueError: TORCH_LOGS: a log is one of", "[__"),
        ({"TORCH_COMPILE_DISABLE": "1", "TORCH_LOGS": "output_code"}, "plain", "[__"),
        ({"FACULA_COMPILE": "0", "TORCH_LOGS": "output_code"}, "plain", "[__"),
    ],
    ids=["breaks", "several", "file", "unknown", "disabled", "off"],
)  # fmt: skip
def test_variables_of_the_environment(variables, told, silent, tmp_path):
    program = """
import sys, facula as torch
def f(x):
    torch._dynamo.graph_break()
    return x + 1
compiled = torch.compile(f)
print("plain" if compiled is f else "compiled", file=sys.stderr)
compiled(torch.ones(2))
"""
    import os

    file = tmp_path / "log"
    env = {**os.environ, **{name: value.format(file=file) for name, value in variables.items()}}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env=env)
    text = file.read_text() if file.exists() else done.stderr
    assert told in text and silent not in text, done.stderr


def test_loggers_of_programs(capsys):
    logger = facula._logging.getArtifactLogger(__name__, "graph_breaks")
    assert logger.name == f"{__name__}.__graph_breaks"
    logger.warning("nobody asked")
    facula._logging.set_logs(graph_breaks=True)
    logger.debug("on")
    late = facula._logging.getArtifactLogger(f"{__name__}.late", "graph_breaks")
    late.debug("late")
    facula._logging.set_logs()
    logger.warning("off"), late.warning("off")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("] ")[1] for line in lines] == ["on", "late"]
    said = []

    class Logger:
        def warning(self, *args):
            said.append(args)

    one = Logger()
    for _ in range(2):
        facula._logging.warning_once(one, "careful %s", 1)
    assert said == [("careful %s", 1)]


def test_random_tensors_and_comparisons_of_tests():
    from facula._dynamo import testing

    x = testing.rand_strided((3, 4), (8, 2), extra_size=5)
    assert x.stride() == (8, 2) and x.untyped_storage().nbytes() == 4 * (2 * 8 + 3 * 2 + 1 + 5)
    assert testing.rand_strided((0, 4), (4, 1)).shape == (0, 4)
    testing.reset_rng_state()
    first = facula.rand(3)
    testing.reset_rng_state()
    assert testing.same([first, {"a": (1, "b")}], [facula.rand(3), {"a": (1, "b")}])
    assert not testing.same([first], [first + 1]) and not testing.same(first, first.double()) and not testing.same(1, 1.0)
    assert testing.same(first, first * 2, cos_similarity=True) and not testing.same({"a": 1}, {"b": 1})
    assert testing.same(facula.tensor([facula.nan]), facula.tensor([facula.nan]), equal_nan=True)
    assert testing.same(facula.arange(3), facula.arange(3)) and not testing.same(first, 3) and not testing.same((1,), [1, 2])


def test_cases_begin_without_recordings():
    import unittest

    from facula._dynamo.test_case import TestCase

    compiled = facula.compile(lambda x: x + 1)
    seen = []

    class Case(TestCase):
        def test_it(self):
            seen.append((list(compiled.recordings), dict(_dynamo.utils.counters)))
            compiled(facula.ones(1))

    compiled(facula.ones(1))
    assert unittest.TextTestRunner(stream=io.StringIO()).run(Case("test_it")).wasSuccessful()
    assert seen == [([], {})] and compiled.recordings == [] and not _dynamo.utils.counters


def test_a_warning_that_is_given_once(recwarn):
    for _ in range(2):
        _dynamo.utils.warn_once("once only, please")
    assert [str(w.message) for w in recwarn] == ["once only, please"]
    assert facula._logging.trace_structured("artifact", payload_fn=None) is None


def test_a_counter_is_a_backend_of_graphs_too():
    graph = facula.fx.symbolic_trace(lambda x: (x + 1).relu())
    count = _dynamo.testing.CompileCounterWithBackend("eager")
    assert count(graph, [facula.ones(1)])(facula.ones(1)).item() == 2
    assert (count.frame_count, count.op_count, len(count.graphs)) == (1, 2, 1)
    plain = _dynamo.testing.CompileCounter()
    assert plain(graph, [])(facula.ones(1)).item() == 2 and plain.op_count == 2
