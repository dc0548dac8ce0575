"""facula.cuda and facula.accelerator as PyTorch has them: generic streams, waits that are reported, default devices, state."""

import subprocess
import sys
import textwrap

from cuda_environment import environment


def run(program, **more):
    """What the program prints, as lines; it has `facula` (as `torch`), `cuda`, `warnings` and `pytest`."""
    source = "import warnings, pytest, facula as torch\nfrom facula import cuda\n" + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", source], env=environment(**more), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_streams_and_events_of_any_accelerator():
    assert run(
        """
        s = torch.Stream(device="cuda", priority=-1)
        print(type(s) is cuda.Stream, isinstance(s, torch.Stream), issubclass(cuda.Stream, torch.Stream), s.device,
            s.priority)
        print(torch.Stream() != s, s.native_handle == s.cuda_stream, s.stream_id == s.cuda_stream)
        start, end = torch.Event("cuda", enable_timing=True), torch.Event(enable_timing=True)
        print(isinstance(start, torch.Event) and isinstance(start, cuda.Event), start.device, start.event_id)
        with s:
            start.record()
            torch.ones(1000, device="cuda").exp()
            end.record(s)
        end.synchronize()
        print(start.elapsed_time(end) >= 0, start.event_id != 0,
            torch.accelerator.current_stream() == cuda.default_stream())
        a = torch.accelerator
        print(a.current_accelerator(), a.device_count(), a.current_device_index(), a.is_available())
        a.set_stream(s)
        print(a.current_stream() == s)
        a.synchronize()
        with a.device_index(0):
            x = torch.ones(1000, device=a.current_accelerator())
        print(a.memory_allocated() == cuda.memory_allocated() > 0, a.max_memory_reserved() >= a.memory_reserved() > 0)
        print(a.get_memory_info() == cuda.mem_get_info(), a.memory_stats()["num_ooms"],
            torch.float16 in a.get_device_capability()["supported_dtypes"])
        a.reset_peak_memory_stats(), a.reset_accumulated_memory_stats(), a.empty_cache()
        print(a.memory.memory_allocated() > 0, torch.get_device_module() is cuda,
            torch.get_device_module("cpu") is torch.cpu)
        of_cpu = torch.Stream("cpu")
        print(isinstance(of_cpu, torch.Stream), isinstance(of_cpu, cuda.Stream), of_cpu.device, of_cpu.query(), of_cpu != s)
        """
    ) == [
        "True True True cuda:0 -1", "True True True", "True cuda:0 0", "True True True", "cuda 1 0 True", "True",
        "True True",
        "True 0 True", "True True True", "True False cpu True True",
    ]  # fmt: skip


def test_waits_are_warned_of_or_refused():
    assert run(
        """
        x = torch.arange(4.0, device="cuda")
        print(cuda.get_sync_debug_mode())
        cuda.set_sync_debug_mode("warn")
        for wait in (lambda: x.sum().item(), x.cpu, x.nonzero, lambda: bool(x[0] > 0), x.tolist,
            cuda.current_stream().synchronize):
            with pytest.warns(UserWarning, match="called a synchronizing CUDA operation"):
                wait()
        cuda.set_sync_debug_mode(2)
        with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
            x.cpu()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            x.exp(), x.softmax(0), x[1:], torch.ones(3,
                device="cuda"), torch.tensor([1.0]).cuda(), x.masked_fill(x > 1, 0)
            cuda.synchronize()
            event = cuda.Event()
            event.record()
            event.synchronize()
        print(cuda.get_sync_debug_mode())
        cuda.set_sync_debug_mode(0)
        print(x.sum().item())
        with pytest.raises(RuntimeError, match="debug_mode must be 'default', 'warn' or 'error', got 'loud'"):
            cuda.set_sync_debug_mode("loud")
        with pytest.raises(RuntimeError, match="0, 1 or 2, got 3"):
            cuda.set_sync_debug_mode(3)
        """
    ) == ["0", "2", "6.0"]


def test_blocking_launches_are_not_the_programs_waits():
    assert run(
        """
        cuda.set_sync_debug_mode("error")
        print(torch.ones(3, device="cuda").exp().shape)
        """,
        CUDA_LAUNCH_BLOCKING="1",
    ) == ["torch.Size([3])"]


def test_default_devices_and_moves():
    assert run(
        """
        with torch.device("cuda"):
            layer = torch.nn.Linear(3, 4)
            print(layer.weight.device, torch.zeros(2).device, torch.tensor([1]).device)
        torch.set_default_device("cuda")
        print(torch.rand(2).device, torch.get_default_device(), torch.ones(1, device="cpu").device)
        torch.set_default_device(None)
        x = torch.ones(2)
        y = x.cuda(non_blocking=True)
        print(y.is_cuda, y.get_device(), x.get_device(), y.cpu().is_cpu, y.to("cuda") is y, y.to("cuda",
            copy=True) is y)
        print(x.to(y).device, x.to("cuda", torch.float16).dtype, y.to(device="cpu").device, y.cuda(0) is y)
        module = torch.nn.BatchNorm1d(2).cuda()
        print({t.device.type for t in module.state_dict().values()},
            {t.device.type for t in module.cpu().state_dict().values()})
        y.record_stream(cuda.Stream())
        """
    ) == [
        "cuda:0 cuda:0 cuda:0", "cuda:0 cuda cpu", "True 0 -1 True True False", "cuda:0 torch.float16 cpu True",
        "{'cuda'} {'cpu'}",
    ]  # fmt: skip


def test_state_of_optimizers_and_checkpoints_go_both_ways(tmp_path):
    path = str(tmp_path / "state.pt")
    assert run(
        f"""
        def trained(device):
            torch.manual_seed(0)
            layer = torch.nn.Linear(3, 2).to(device)
            optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
            step(layer, optimizer)
            return layer, optimizer
        def step(layer, optimizer):
            optimizer.zero_grad()
            layer(torch.ones(4, 3, device=layer.weight.device)).sum().backward()
            optimizer.step()
        def close(a, b):
            return all(torch.allclose(x.cpu(), y.cpu()) for x, y in zip(a.parameters(), b.parameters()))
        for here, there in (("cpu", "cuda"), ("cuda", "cpu")):
            layer, optimizer = trained(here)
            print(next(iter(optimizer.state.values()))["exp_avg"].device.type, end=" ")
            torch.save([layer.state_dict(), optimizer.state_dict()], {path!r})
            other, other_optimizer = trained(there)
            states = torch.load({path!r}, map_location=there)
            print({{t.device.type for t in states[0].values()}}, end=" ")
            other.load_state_dict(states[0])
            other_optimizer.load_state_dict(torch.load({path!r})[1])  # moves to the parameters' device
            print(next(iter(other_optimizer.state.values()))["exp_avg"].device.type, end=" ")
            step(layer, optimizer), step(other, other_optimizer)
            print(close(layer, other), torch.load({path!r})[0]["weight"].device.type)
        """
    ) == ["cpu {'cuda'} cuda True cpu", "cuda {'cpu'} cpu True cuda"]


def test_generators_of_devices_are_forked():
    assert run(
        """
        def draw():
            return torch.rand(3, device="cuda"), torch.rand(3)
        torch.manual_seed(1)
        with torch.random.fork_rng():
            a = draw()
        b = draw()
        print(torch.equal(a[0], b[0]), torch.equal(a[1], b[1]))
        with torch.random.fork_rng(devices=[]):
            c = draw()
        d = draw()
        print(torch.equal(c[0], d[0]), torch.equal(c[1], d[1]))
        with torch.random.fork_rng(devices=[0], device_type="cuda"):
            e = draw()
        print(torch.equal(e[0], draw()[0]))
        """
    ) == ["True True", "False True", "True"]


def test_errors_runtime_and_copies_between_devices():
    assert run(
        """
        runtime = cuda.cudart()
        print(runtime.cudaMemGetInfo(0) == cuda.mem_get_info(0),
            runtime.cudaProfilerStart() == runtime.cudaError.success)
        with cuda.profiler.profile():
            cuda.check_error(0)
        with pytest.raises(cuda.CudaError, match=r"\\(1\\)$"):
            cuda.check_error(1)
        print(issubclass(torch.AcceleratorError, RuntimeError), cuda.AcceleratorError is torch.AcceleratorError)
        x = torch.ones(4, device="cuda")
        class Longer:
            __cuda_array_interface__ = {**x.__cuda_array_interface__, "shape": (1 << 40,)}
        if cuda.is_emulated():  # whose driver looks where copies read
            with pytest.raises(torch.AcceleratorError, match="CUDA error") as caught:
                torch.as_tensor(Longer())[(1 << 39):][:4].cpu()
            print(caught.value.error_code)
        """
    )[:2] == ["True True", "True True"]


def test_two_devices():
    assert run(
        """
        x = torch.arange(6.0, device="cuda:1")
        parts = cuda.comm.scatter(torch.arange(6.0), [0, 1])
        print([p.device.index for p in parts], cuda.comm.gather(parts).tolist(), cuda.comm.gather(parts,
            destination="cuda:1").device)
        print([c.device.index for c in cuda.comm.broadcast(x, [0, 1])])
        print(cuda.comm.reduce_add([x, x.to("cuda:0")], 0).tolist())
        print(torch.accelerator.device_count(), x.__dlpack_device__(), torch.from_dlpack(x).device)
        with cuda.device(1):
            print(torch.accelerator.current_device_index(), torch.ones(1, device="cuda").device)
        torch.accelerator.set_device_index(1)
        print(torch.accelerator.current_device_index(), torch.ones(1, device="cuda").device)
        """,
        FACULA_EMULATED_DEVICES="2",
    ) == [
        "[0, 1] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0] cuda:1", "[0, 1]", "[0.0, 2.0, 4.0, 6.0, 8.0, 10.0]",
        "2 (2, 1) cuda:1", "1 cuda:1", "1 cuda:1",
    ]  # fmt: skip


def test_sensors_ask_nvidias_library():
    assert run(
        """
        import sys, types
        if cuda.is_emulated():
            with pytest.raises(RuntimeError, match="expected a device of NVIDIA, got the emulated one"):
                cuda.utilization()
        fake = types.ModuleType("pynvml")
        fake.nvmlInit = lambda: None
        fake.NVMLError_DriverNotLoaded = type("NVMLError_DriverNotLoaded", (Exception,), {})
        fake.nvmlDeviceGetHandleByIndex = lambda index: f"device {index}"
        fake.nvmlDeviceGetUtilizationRates = lambda handle: types.SimpleNamespace(gpu=7, memory=3)
        fake.nvmlDeviceGetMemoryInfo = lambda handle: types.SimpleNamespace(used=5)
        fake.nvmlDeviceGetTemperature = lambda handle, sensor: 40 + sensor
        fake.nvmlDeviceGetPowerUsage = lambda handle: 250
        fake.nvmlDeviceGetClockInfo = lambda handle, clock: 1000 + clock
        fake.nvmlDeviceGetComputeRunningProcesses = lambda handle: [types.SimpleNamespace(pid=12,
            usedGpuMemory=3 << 20)]
        sys.modules["pynvml"] = fake
        import facula
        facula._C._cuda_is_emulated = lambda: False
        print(cuda.utilization(), cuda.memory_usage(), cuda.device_memory_used(), cuda.temperature(),
            cuda.power_draw(), cuda.clock_rate())
        print(cuda.list_gpu_processes())
        sys.modules["pynvml"] = None
        with pytest.raises(ModuleNotFoundError, match="nvidia-ml-py"):
            cuda.temperature()
        """
    ) == ["7 3 5 40 250 1001", "GPU:0", "process         12 uses        3.000 MB GPU memory"]


def test_infinite_logits_make_a_cross_entropy_nan():
    assert run(
        """
        inf = float("inf")
        logits = torch.tensor([[inf, 0, 1], [0, 1, 2], [-inf, -inf, -inf], [1, -inf, inf]])
        losses = [torch.nn.functional.cross_entropy(logits.to(d), torch.tensor([0, 1, 2, 1], device=d), reduction="none") for d in ("cpu", "cuda")]
        print(losses[1].isnan().tolist(), torch.allclose(losses[0], losses[1].cpu(), equal_nan=True))
        """
    ) == ["[True, False, True, True] True"]
