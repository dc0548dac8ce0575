"""Modules of device kinds that Facula does not support."""

import os
import subprocess
import sys
import threading

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


@pytest.mark.parametrize("text", ["nonsense", "CPU", "cpu ", "nonsense:0"])
def test_an_unknown_device_is_named_as_programs_expect(text):
    """Packages split PyTorch's text to learn which devices there are."""
    with pytest.raises(RuntimeError) as caught:
        facula.device(text)
    before, _, after = str(caught.value).partition(" device type at start of device string: ")
    assert before == "Expected one of cpu, cuda, meta" and after == text


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "Device string must not be empty"),
        ("cpu:x", "Invalid device string: 'cpu:x'"),
        ("cpu:-1", "Invalid device string: 'cpu:-1'"),
        ("cuda:", "Invalid device string: 'cuda:'"),
        ("cuda:01", "Invalid device string: 'cuda:01'"),
        ("cpu:99999999999", "Could not parse device index '99999999999' in device string 'cpu:99999999999'"),
    ],
)
def test_a_malformed_index_is_an_error(text, message):
    with pytest.raises(RuntimeError) as caught:
        facula.device(text)
    assert str(caught.value) == message
    assert facula.device("cuda:10") == facula.device("cuda", 10)


def test_the_default_device_is_the_threads_own():
    found = {}

    def work():
        found["before"] = facula.zeros(1).device.type
        facula.set_default_device(None)
        facula.set_default_device("meta")
        found["meta"] = facula.zeros(1).device.type
        facula.set_default_device("cpu")
        found["after"] = facula.zeros(1).device.type

    facula.set_default_device("meta")
    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert found == {"before": "cpu", "meta": "meta", "after": "cpu"}
        assert facula.zeros(1).device.type == "meta" and facula.get_default_device().type == "meta"
    finally:
        facula.set_default_device(None)
    assert facula.zeros(1).device.type == "cpu"
