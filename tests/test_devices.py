"""Modules of device kinds that Facula does not support."""

import os
import subprocess
import sys

import pytest

import facula


@pytest.mark.parametrize("kind", ["mps", "mtia", "xpu"])
def test_modules_of_missing_devices(kind):
    module = getattr(facula, kind)
    assert module.is_available() is False and module.device_count() == 0
    module.manual_seed(0)
    module.empty_cache()
    with pytest.raises(NotImplementedError, match=f"^torch.{kind}.synchronize is not supported"):
        module.synchronize()
    assert isinstance(module.Event, type)
    with pytest.raises(NotImplementedError, match=f"^torch.{kind}.Event is not supported"):
        module.Event()
    assert all(hasattr(module, name) for name in module.__all__)


def test_what_can_be_asked_of_a_missing_device():
    with facula.xpu.device(0), facula.mtia.stream(None):
        assert facula.xpu.memory_allocated() == 0 and facula.xpu.memory_stats() == {}


def test_events_of_the_cpu():
    event = facula.cpu.Event()
    event.record()
    event.wait()
    event.synchronize()
    assert event.query()


def test_level_of_the_kernels():
    assert facula.backends.cpu.get_cpu_capability() in {"AVX512", "AVX2", "DEFAULT"}
    env = {**os.environ, "FACULA_ISA": "v9", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", "import facula"], env=env, capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stderr.rstrip().endswith("RuntimeError: facula: expected an instruction-set level that was compiled in and that this "
                                        "processor has, got v9 from FACULA_ISA")  # fmt: skip
