"""Modules of device kinds that Facula does not support."""

import os
import shutil
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


@pytest.mark.skipif(not shutil.which("qemu-x86_64"), reason="needs qemu-user, which imitates a processor of 2008")
def test_an_older_processor_is_told_what_the_package_was_compiled_for():
    program = "import facula; print(facula.backends.cpu.get_cpu_capability())"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(["qemu-x86_64", "-cpu", "Nehalem", sys.executable, "-c", program], env=env, capture_output=True, text=True)
    if run.returncode == 0:
        assert run.stdout == "DEFAULT\n"  # all levels are there
    else:
        assert run.returncode == 1  # no signal
        assert "RuntimeError: facula: this package was compiled for processors with AVX" in run.stderr
        assert "make wheel" in run.stderr

@pytest.mark.parametrize("options", [{"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {}])
def test_sgd_on_a_large_meta_parameter(options):
    parameter = facula.nn.Parameter(facula.empty(1 << 40, device="meta"))
    parameter.grad = facula.empty_like(parameter)
    optimizer = facula.optim.SGD([parameter], lr=0.1, **options)
    for _ in range(2):
        optimizer.step()
    for state in optimizer.state.values():
        assert state["momentum_buffer"].is_meta and state["momentum_buffer"].shape == parameter.shape


def test_adam_on_a_large_meta_parameter():
    parameter = facula.nn.Parameter(facula.empty(1 << 40, device="meta"))
    parameter.grad = facula.empty_like(parameter)
    optimizer = facula.optim.Adam([parameter])
    optimizer.step()
    assert optimizer.state[parameter]["exp_avg"].is_meta


def test_a_state_of_another_device_is_refused():
    parameter = facula.nn.Parameter(facula.ones(3))
    parameter.grad = facula.ones(3)
    optimizer = facula.optim.SGD([parameter], lr=0.1, momentum=0.9)
    optimizer.step()
    optimizer.state[parameter]["momentum_buffer"] = facula.empty(3, device="meta")
    with pytest.raises(RuntimeError, match="^sgd: expected state on the parameter's device cpu, got meta"):
        optimizer.step()


@pytest.mark.parametrize("make", [lambda: facula.randn(3, device="meta", generator=facula.Generator()),
                                  lambda: facula.rand(2, device="meta")])  # fmt: skip
def test_random_meta_tensors_draw_nothing(make):
    before = facula.get_rng_state()
    assert make().is_meta
    assert facula.equal(before, facula.get_rng_state())


@pytest.mark.parametrize("text", ["nonsense", "CPU", "cpu ", "nonsense:0"])
def test_an_unknown_device_is_named_as_programs_expect(text):
    """Packages split PyTorch's text to learn which devices there are."""
    with pytest.raises(RuntimeError) as caught:
        facula.device(text)
    before, _, after = str(caught.value).partition(" device type at start of device string: ")
    assert before == "Expected one of cpu, cuda, meta" and after.partition(". Did you mean")[0] == text


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "device: expected a device such as 'cpu' or 'cuda:0', got an empty text"),
        ("cpu:x", "Invalid device string: 'cpu:x', expected a number after the colon, got 'x'"),
        ("cpu:-1", "Invalid device string: 'cpu:-1', expected a number after the colon, got '-1'"),
        ("cuda:", "Invalid device string: 'cuda:', expected a number after the colon, got ''"),
        ("cuda:01", "Invalid device string: 'cuda:01', expected a number after the colon, got '01'"),
        ("cpu:99999999999", "device: the number of a device is at most 127, got 'cpu:99999999999'"),
    ],
)
def test_a_malformed_index_is_an_error(text, message):
    with pytest.raises(RuntimeError) as caught:
        facula.device(text)
    assert str(caught.value) == message
    assert facula.device("cuda:10") == facula.device("cuda", 10)


@pytest.mark.parametrize(("text", "meant"), [("cudaa", "cuda"), ("cud:0", "cuda"), ("gpu", "cuda"), ("gpu:1", "cuda"), ("mta", "meta")])
def test_a_device_that_was_meant_is_suggested(text, meant):
    with pytest.raises(RuntimeError, match=rf"string: {text}\. Did you mean: '{meant}'\?$"):
        facula.device(text)


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


FACTORIES = {
    "empty": lambda **to: facula.empty(0, **to),
    "empty with elements": lambda **to: facula.empty(2, **to),
    "empty_strided": lambda **to: facula.empty_strided((0,), (1,), **to),
    "empty_like": lambda **to: facula.empty_like(facula.ones(0), **to),
    "zeros": lambda **to: facula.zeros(0, 3, **to),
    "full": lambda **to: facula.full((0,), 2.0, **to),
    "arange": lambda **to: facula.arange(0, **to),
    "eye": lambda **to: facula.eye(0, **to),
    "rand": lambda **to: facula.rand(0, **to),
    "randperm": lambda **to: facula.randperm(0, **to),
    "tensor": lambda **to: facula.tensor([], **to),
    "asarray": lambda **to: facula.asarray([], **to),
    "to": lambda **to: facula.ones(0).to(**to),
    "new_empty": lambda **to: facula.ones(1).new_empty(0, **to),
    "storage": lambda **to: facula.UntypedStorage(0, **to),
}


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:127"])
@pytest.mark.parametrize("name", FACTORIES)
@pytest.mark.skipif(facula.cuda.is_available(), reason="about a machine without CUDA")
def test_no_bytes_need_their_device_too(name, device):
    with pytest.raises(AssertionError, match=f"there is no CUDA device to use: .*, got (device )?cuda:{device[5:] or 0}$"):
        FACTORIES[name](device=device)


@pytest.mark.parametrize("name", FACTORIES)
def test_no_bytes_on_meta(name):
    assert FACTORIES[name](device="meta").device.type == "meta"


@pytest.mark.parametrize("index", [-(1 << 40), -2, -1, 128, 129, 255, 256, 1 << 32, (1 << 63) - 1])
def test_an_index_does_not_wrap_round(index):
    for make in (lambda: facula.device("cuda", index), lambda: facula.device("cuda", index=index), lambda: facula.device(index)):
        with pytest.raises(RuntimeError, match=f"^device: expected an index of at most 127 that is not negative, got {index}$"):
            make()
    with pytest.raises(RuntimeError, match=f"got 'cuda:{index}'|Invalid device string: 'cuda:{index}'"):
        facula.device(f"cuda:{index}")
    assert facula.device("cuda", 127).index == 127


@pytest.mark.skipif(facula.cuda.is_available(), reason="about a machine without CUDA")
def test_devices_can_be_counted_by_trying():
    """As packages that know no other way do: index after index until a tensor of no elements fails or repeats a device."""
    found = []
    for kind in ("cpu", "cuda", "meta"):
        for index in range(300):
            try:
                device = facula.empty(0, device=facula.device(kind, index)).device
            except (AssertionError, RuntimeError):
                break
            if device in found:
                break
            found.append(device)
    assert found == [facula.device("cpu"), facula.device("meta")]
