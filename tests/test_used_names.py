"""Names that public programs use (tests/data/used_names.txt) and that no other test calls."""

import importlib
import io
import subprocess
import sys
from pathlib import Path

import pytest

import facula as torch

PROGRAM = Path(__file__).parent / "used_names.py"


def test_what_is_true_of_pytorch_is_true():
    done = subprocess.run([sys.executable, "-m", "facula", str(PROGRAM)], capture_output=True, text=True, timeout=120)
    *wrong, last = done.stdout.splitlines() or [""]
    assert done.returncode == 0, done.stderr
    assert not wrong, "\n".join(wrong)
    assert last.endswith(" lines") and int(last.split()[0]) > 100


def test_global_hooks_are_in_the_dicts():
    hooks = importlib.import_module("facula.nn.modules.module")
    before = len(hooks._global_forward_hooks), len(hooks._global_forward_pre_hooks)
    handles = [hooks.register_module_forward_hook(lambda *_: None), hooks.register_module_forward_pre_hook(lambda *_: None)]
    assert (len(hooks._global_forward_hooks), len(hooks._global_forward_pre_hooks)) == (before[0] + 1, before[1] + 1)
    for handle in handles:
        handle.remove()
    assert len(hooks._global_forward_hooks) == before[0]


def test_settings_of_the_compiler_keep_their_values():
    config = importlib.import_module("facula._dynamo.config")
    before = config.cache_size_limit
    with config.patch("verbose", True), config.patch({"cache_size_limit": before + 1}), config.patch(optimize_ddp=False):
        assert config.verbose and config.cache_size_limit == before + 1 and not config.optimize_ddp
    assert not config.verbose and config.cache_size_limit == before and config.optimize_ddp
    assert not config.capture_scalar_outputs and not config.skip_fwd_side_effects_in_bwd_under_checkpoint
    with pytest.raises(AttributeError, match="no such setting, got 'nope'$"):
        config.patch("nope", 1)


def test_a_step_that_is_recorded_or_not():
    seen = []

    class Steps:
        def __init__(self, differentiable):
            self.defaults = {"differentiable": differentiable}

        @torch.optim.optimizer._use_grad_for_differentiable
        def step(self):
            seen.append(torch.is_grad_enabled())

    Steps(False).step()
    Steps(True).step()
    assert seen == [False, True] and torch.is_grad_enabled()


def test_algorithms_that_are_not_deterministic():
    alert = importlib.import_module("facula._prims_common").alert_not_deterministic
    assert alert("op") is None
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match="^op: does not have a deterministic implementation"):
            alert("op")
        torch.use_deterministic_algorithms(True, warn_only=True)
        with pytest.warns(UserWarning, match="^op: does not have a"):
            alert("op")
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    ("use", "kind", "text"),
    [
        (lambda: torch._utils._get_device_index("cpu"), ValueError, "^device: a device that is not the CPU is expected, got cpu$"),
        (lambda: torch._utils._get_device_index("cuda"), ValueError, "got cuda$"),
        (lambda: torch.FloatStorage.from_buffer(bytes(7), "little"), ValueError, r"buffer size \(7\) must be a multiple"),
        (lambda: torch.FloatStorage.from_buffer(bytes(8), "up"), ValueError, "byte_order 'up'"),
        (lambda: torch.FloatStorage.from_buffer(bytes(8), "big", count=3), ValueError, "3 elements of 4 bytes, got 8 bytes"),
        (lambda: torch.FloatStorage.from_buffer(bytes(8), "big", offset=9), ValueError, "offset .* got 9$"),
        (lambda: torch.SymInt(3), NotImplementedError, "^SymInt: .* got 1 arguments$"),
    ],
)
def test_what_is_refused(use, kind, text):
    with pytest.raises(kind, match=text):
        use()


def test_progress_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    text = io.StringIO()
    with torch.hub._Bar(total=3, file=text) as bar:
        bar.update(2)
    assert text.getvalue() == "2 of 3\n" and list(torch.utils.model_zoo.__getattr__("tqdm")([1], disable=True)) == [1]
