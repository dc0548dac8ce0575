"""What devices do, in profiles: rows of tables, traces with arrows, and a host that runs ahead; by CUPTI and by events."""

import subprocess
import sys
import textwrap

from cuda_environment import environment


def run(program, **more):
    """What the program prints, as lines; it has `torch`, `profile`, `CPU` and `CUDA`."""
    source = """
import json, facula as torch
from facula.profiler import ProfilerActivity, profile, record_function
CPU, CUDA = ProfilerActivity.CPU, ProfilerActivity.CUDA
"""
    done = subprocess.run(
        [sys.executable, "-c",
            source + textwrap.dedent(program)], env=environment(**more), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr or "warn" in program, done.stderr  # the stand-in for CUPTI says what is wrong with our calls
    return done.stdout.splitlines()


def run_with_events(program, **more):
    """The same without CUPTI."""
    return run(program, FACULA_CUDA_DISABLE="cupti", **more)


def test_tables_show_the_time_of_the_device():
    assert run_with_events(
        """
        x = torch.rand(64, 64, device="cuda", requires_grad=True)
        def work():
            with record_function("forward"):
                loss = (x @ x).exp().sum()
            loss.backward()
        work()
        with profile(profile_memory=True) as p:  # the CPU and CUDA by default
            work()
        averages = p.key_averages()
        rows = {row.key: row for row in averages if row.device_type == "CPU"}
        kernels = {row.key: row for row in averages if row.device_type == "CUDA"}
        mm, forward = rows["aten::mm"], rows["forward"]
        print(mm.count, mm.self_device_time_total > 0, mm.device_time_total == mm.self_device_time_total)
        print(forward.self_device_time_total, forward.device_time_total > rows["aten::exp"].device_time_total > 0)
        print("elementwise: exp" in kernels, kernels["elementwise: exp"].self_cpu_time_total,
            kernels["elementwise: exp"].count)
        total = sum(row.self_device_time_total for row in kernels.values())
        print(abs(total - averages.self_device_time_total) < 1e-6 * total)
        print(abs(total - sum(row.self_device_time_total for row in rows.values())) < 1e-6 * total)
        print(rows["aten::exp"].self_device_memory_usage, rows["aten::exp"].self_cpu_memory_usage)
        text = averages.table(sort_by="self_cuda_time_total")
        first, second = [next(r for r in averages if r.key == line.strip().split("  ")[0]).self_device_time_total
                         for line in text.splitlines()[3:5]]
        print(first >= second)
        titles = text.splitlines()[1]
        at = [titles.index(t) for t in ("Self CPU", "Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg",
            "CUDA Mem", "# of Calls")]
        print(at == sorted(at), "Self CUDA time total:" in text)
        print([k.name for e in p.events() if e.name == "aten::exp" for k in e.kernels])
        print("CUDA" in torch.ones(2).exp().__class__.__name__, CUDA in torch.profiler.supported_activities())
        """
    ) == [
        "3 True True", "0 True", "True 0.0 1", "True", "True", "16384 0", "True", "True True",
        "['elementwise: exp']", "False True",
    ]  # fmt: skip


def test_traces_have_a_row_for_each_stream_and_arrows_to_it(tmp_path):
    path = tmp_path / "trace.json"
    run_with_events(
        f"""
        x = torch.rand(1000, device="cuda")
        x.exp(), x.sin()
        side = torch.cuda.Stream()
        with profile(activities=[CPU, CUDA], profile_memory=True) as p:
            x.exp()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                y = x.sin()
        p.export_chrome_trace({str(path)!r})
        """
    )
    import json

    events = json.loads(path.read_text())["traceEvents"]
    slices = {e["name"]: e for e in events if e.get("cat") == "kernel"}
    assert slices["elementwise: exp"]["tid"] == 0 and slices["elementwise: sin"]["tid"] == 1
    assert all(e["pid"] == 0 and e["dur"] >= 0 and e["args"]["device"] == 0 for e in slices.values())
    names = {(e["name"], e["pid"], e["tid"], e["args"].get("name")) for e in events if e["ph"] == "M"}
    assert {("process_name", 0, 0, "GPU 0"), ("thread_name", 0, 0, "stream 0 (default)"), ("thread_name", 0, 1,
        "stream 1")} <= names
    starts = {e["id"]: e for e in events if e.get("cat") == "ac2g" and e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e.get("cat") == "ac2g" and e["ph"] == "f"}
    assert starts.keys() == ends.keys() and len(starts) == len(slices)
    ops = {e["name"]: e for e in events if e.get("cat") == "cpu_op"}
    for name in ("exp", "sin"):
        op, work = ops[f"aten::{name}"], slices[f"elementwise: {name}"]
        (number,) = (i for i, e in ends.items() if (e["tid"], e["ts"]) == (work["tid"], work["ts"]))
        assert op["ts"] <= starts[number]["ts"] <= op["ts"] + op["dur"] and starts[number]["tid"] == op["tid"]
        assert work["args"]["External id"] == op["args"]["External id"]
    assert any(e["name"] == "bytes of devices since the start" for e in events)


def test_the_host_runs_ahead():
    assert run_with_events(
        """
        x = torch.rand(512, 512, device="cuda")
        (x @ x).exp()
        torch.cuda.synchronize()
        with profile() as p:
            y = x @ x
            for _ in range(20):
                y = y.exp()
        work = [e for e in p.events() if e.kind == "device"]
        print(len(work) >= 21, all(e.time_range.start <= e.time_range.end for e in work))
        calls = [e for e in p.events() if e.name == "aten::exp"]
        last = [e for e in work if e.name == "elementwise: exp"][-1]
        print(last.queued_by is calls[-1])
        # the last op was queued before the product, the first of the device's work, was done
        product = max(work, key=lambda e: e.time_range.elapsed_us())
        print(calls[-1].time_range.end < last.time_range.start, last.queued < last.time_range.start)
        """,
        FACULA_EMULATED_JITTER="3000",
    ) == ["True True", "True", "True True"]


def test_only_the_device_or_only_the_host_and_schedules():
    assert run_with_events(
        """
        x = torch.rand(8, device="cuda")
        x.exp()
        with profile(activities=[CUDA]) as p:
            x.exp()
        print([e.name for e in p.events()], p.key_averages().self_cpu_time_total == 0)
        with profile(activities=[CPU]) as p:
            x.exp()
        print([e.name for e in p.events()], "CUDA" in p.key_averages().table())
        with torch.autograd.profiler.profile(use_device="cuda") as p:
            x.exp()
        print([e.name for e in p.function_events])
        seen = []
        steps = torch.profiler.schedule(wait=1, warmup=0, active=1)
        with profile(schedule=steps,
            on_trace_ready=lambda p: seen.append([e.name for e in p.events() if e.kind == "device"])) as p:
            for _ in range(4):
                x.exp()
                p.step()
        print(seen)
        """
    ) == [
        "['elementwise'] True", "['aten::exp'] False", "['aten::exp', 'elementwise: exp']",
        "[['elementwise: exp'], ['elementwise: exp']]",
    ]  # fmt: skip


def test_threads_and_stacks(tmp_path):
    path = tmp_path / "stacks.txt"
    assert run_with_events(
        f"""
        import threading
        x = torch.rand(100, device="cuda")
        def other():
            torch.cuda.set_stream(torch.cuda.Stream())
            x.sin()
            torch.cuda.current_stream().synchronize()
        x.sin(), x.exp()
        with profile(with_stack=True) as p:
            thread = threading.Thread(target=other)
            thread.start()
            x.exp()
            thread.join()
        by_name = {{e.name: e for e in p.events() if e.kind == "device"}}
        print(by_name["elementwise: sin"].queued_by.thread != by_name["elementwise: exp"].queued_by.thread)
        print(by_name["elementwise: sin"].queued_by.name)
        p.export_stacks({str(path)!r}, "self_cuda_time_total")
        """
    ) == ["True", "aten::sin"]
    assert len(path.read_text().splitlines()) >= 2


def test_the_timeline_example_shows_the_device(tmp_path):
    from pathlib import Path

    examples = Path(__file__).resolve().parents[1] / "examples"
    lines = run(
        f"""
        import sys
        sys.path.insert(0, {str(examples)!r})
        import timeline
        timeline.main(["--out", {str(tmp_path)!r}, "--device", "cuda", "--steps", "1", "--batch", "2"])
        """
    )
    assert any(line.startswith("Self CUDA time total:") for line in lines)
    assert "GPU 0" in (tmp_path / "timeline.json").read_text() and (tmp_path / "timeline.png").stat().st_size > 10000


def test_a_graph_can_be_captured_while_a_profile_runs():
    assert run_with_events(
        """
        x = torch.ones(4, device="cuda")
        with torch.cuda.stream(torch.cuda.Stream()):
            y = x.exp()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with profile(activities=[CPU, CUDA]) as p:
            with torch.cuda.graph(graph):
                y = x.exp()
            x.neg()
        graph.replay()
        torch.cuda.synchronize()
        print([e.name for e in p.events() if e.kind == "device"], round(y[0].item(), 3))
        """
    ) == ["['elementwise: neg'] 2.718"]


# ---- CUPTI

OPEN = """
import ctypes
stand_in = ctypes.CDLL(torch.cuda.libraries()["cupti"])
stand_in.facula_emulated_cupti.restype = ctypes.c_char_p
"""


def test_every_kernel_copy_and_fill_is_seen_with_what_queued_it():
    assert run(
        """
        def work():
            (x @ x).exp().sum().cpu()
            torch.ones(100).to("cuda"), torch.ones(10).pin_memory().to("cuda", non_blocking=True)
            torch.zeros(5, device="cuda", dtype=torch.uint8)
        x = torch.rand(64, 64, device="cuda")
        work()
        with profile() as p:
            work()
        work = [e for e in p.events() if e.kind == "device"]
        for e in work:
            print(e.activity_type, e.name.partition("<")[0], e.queued_by.name, e.launch.name)
        print(all(e.launch.thread == e.thread == e.queued_by.thread for e in work))
        print(all(e.linked_correlation_id == e.launch.linked_correlation_id > 0 for e in work))
        print(all(e.queued <= e.time_range.start < e.time_range.end for e in work))
        inside = [e.queued_by.time_range.start <= e.queued <= e.launch.time_range.start <= e.queued_by.time_range.end
            for e in work]
        print(sum(inside) >= len(work) - 1)  # clocks meet to a microsecond
        exp = next(e for e in work if "<exp, " in e.name).event_metadata
        print(exp.grid, exp.block, exp.registers_per_thread > 0, exp.shared_memory, exp.bytes, exp.stream)
        copy = next(e for e in work if e.name.startswith("Memcpy HtoD")).event_metadata
        print(copy.bytes, copy.bandwidth_gb_s > 0, copy.grid)
        print(torch._C._cuda_activity_stop())
        """
    ) == [
        "kernel library aten::mm cuLaunchKernel",
        "kernel facula::cuda::pointwise_direct aten::exp cuLaunchKernel",
        "kernel facula::cuda::fold_rows aten::sum cuLaunchKernel",
        "gpu_memcpy Memcpy DtoH (Device -> Pageable) aten::_to_device cuMemcpyDtoHAsync_v2",
        "gpu_memcpy Memcpy HtoD (Pageable -> Device) aten::_to_device cuMemcpyHtoDAsync_v2",
        "gpu_memcpy Memcpy HtoD (Pinned -> Device) aten::_to_device cuMemcpyHtoDAsync_v2",
        "gpu_memset Memset (Device) aten::zeros cuMemsetD8Async",
        "True", "True", "True", "True", "[4, 1, 1] [256, 1, 1] True 0 None 0", "400 True None", "([], [], 0, 'cupti')",
    ]  # fmt: skip


def test_tables_and_traces_with_cupti(tmp_path):
    path = tmp_path / "trace.json"
    assert run(
        f"""
        x = torch.rand(64, 64, device="cuda")
        side = torch.cuda.Stream()
        def work():
            with record_function("outer"):
                x.exp().zero_()
            with torch.cuda.stream(side):
                x.sin()
        work()
        torch.cuda.synchronize()
        with profile(with_stack=True) as p:
            work()
        averages = p.key_averages()
        host = {{row.key: row for row in averages if row.device_type == "CPU"}}
        device = [row for row in averages if row.device_type == "CUDA"]
        print(sorted(row.key.partition(", ")[0] for row in device))
        total = sum(row.self_device_time_total for row in device)
        print(abs(total - averages.self_device_time_total) < 1e-6 * total)
        outer = host["outer"]
        parts = host["aten::exp"].device_time_total + host["aten::zero_"].device_time_total
        print(outer.self_device_time_total, abs(outer.device_time_total - parts) < 1e-6 * total)
        print(all(row.self_cpu_time_total == 0 for row in device), "Self CUDA %" in averages.table())
        print([e.stack[0].rpartition("): ")[2] for e in p.events() if e.kind == "device"])
        p.export_chrome_trace({str(path)!r})
        p.export_stacks({str(tmp_path / "stacks")!r}, "self_cuda_time_total")
        lines = open({str(tmp_path / "stacks")!r}).read().splitlines()
        print(sum(int(line.rpartition(" ")[2]) for line in lines) <= total + len(lines))
        """
    ) == [
        "['Memset (Device)', 'facula::cuda::pointwise_direct<exp', 'facula::cuda::pointwise_direct<sin']", "True",
        "0 True", "True True", "['work', 'work', 'work']", "True",
    ]  # fmt: skip
    import json

    events = json.loads(path.read_text())["traceEvents"]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    (fill,) = [e for e in events if e.get("cat") == "gpu_memset"]
    launches = {e["args"]["correlation"]: e for e in events if e.get("cat") == "cuda_driver"}
    assert sorted(e["tid"] for e in kernels) == [0, 1] and fill["tid"] == 0
    assert fill["args"]["bytes"] == 64 * 64 * 4 and fill["args"]["memory bandwidth (GB/s)"] > 0
    arrows = {e["id"]: e for e in events if e.get("cat") == "ac2g" and e["ph"] == "s"}
    for end in (e for e in events if e.get("cat") == "ac2g" and e["ph"] == "f"):
        (work,) = [e for e in [*kernels, fill] if (e["tid"], e["ts"]) == (end["tid"], end["ts"])]
        launch = launches[work["args"]["correlation"]]
        assert (arrows[end["id"]]["tid"], arrows[end["id"]]["ts"]) == (launch["tid"], launch["ts"])
    assert len(arrows) == 3
    assert {"grid", "block", "registers per thread", "shared memory", "Call stack"} <= kernels[0]["args"].keys()


def test_many_records_and_threads():
    assert run(
        OPEN
        + """
import threading
x = torch.rand(8, device="cuda")
def loop(n):
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(n):
            x.exp()
loop(2)
for round in range(2):
    with profile() as p:
        threads = [threading.Thread(target=loop, args=(150,)) for _ in range(3)]
        [t.start() for t in threads]
        [t.join() for t in threads]
    work = [e for e in p.events() if e.kind == "device"]
    print(len(work), all(e.queued_by.name == "aten::exp" and e.queued_by.thread == e.thread for e in work))
    print(len({e.device_resource_id for e in work}), len({e.linked_correlation_id for e in work}))
    print(len([e for e in p.events() if e.name == "aten::exp" and len(e.kernels) == 1]))
    print(stand_in.facula_emulated_cupti().decode())
x.exp()
print(len(work))
"""
    ) == ["450 True", "3 450", "450", "0 0 0 0"] * 2 + ["450"]


def test_replays_show_the_kernels_inside(tmp_path):
    program = f"""
        x = torch.ones(4, device="cuda")
        with torch.cuda.stream(torch.cuda.Stream()):
            y = x.exp().neg()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with profile() as p:
            with torch.cuda.graph(graph):
                y = x.exp().neg()
            with record_function("replay"):
                graph.replay()
            torch.cuda.synchronize()
            graph.replay()
        for e in p.events():
            if e.kind == "device":
                print(e.name.partition("<")[0], e.queued_by and e.queued_by.name, e.launch and e.launch.name,
                    e.event_metadata.graph_node_id)
        p.export_chrome_trace({str(tmp_path / "trace.json")!r})
        """
    kernel = "facula::cuda::pointwise_direct"
    assert run(program) == [
        f"{kernel} replay cuGraphLaunch 1", f"{kernel} replay cuGraphLaunch 2",
        f"{kernel} None cuGraphLaunch 1", f"{kernel} None cuGraphLaunch 2",
    ]  # fmt: skip
    assert run_with_events(program) == ["CUDAGraph.replay replay None None", "CUDAGraph.replay None None None"]


def test_where_cupti_cannot_be_used_events_are_and_one_warning_says_so():
    program = OPEN + """
import warnings
x = torch.rand(8, device="cuda")
x.exp()
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for _ in range(2):
        with profile() as p:
            x.exp()
        print([e.name for e in p.events() if e.kind == "device"])
print([str(w.message).partition("kernels: ")[2] for w in seen], stand_in.facula_emulated_cupti().decode())
"""
    names = ["['elementwise: exp']"] * 2
    denied = (
        "cuptiActivityEnable gives CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35): profiling is not permitted to this user"
    )
    assert run(program, FACULA_EMULATED_CUPTI="denied") == [*names, f"['{denied}'] 0 0 0 0"]
    held = "cuptiSubscribe gives CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39): another profiler holds it"
    assert run(program, FACULA_EMULATED_CUPTI="held") == [*names, f"['{held}'] 0 0 0 0"]


def test_what_is_lost_is_said():
    (line,) = run(
        """
        import warnings
        x = torch.rand(8, device="cuda")
        x.exp()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            with profile() as p:
                for _ in range(30):
                    x.exp()
        print(len([e for e in p.events() if e.kind == "device"]), str(seen[0].message))
        """,
        FACULA_EMULATED_CUPTI="lossy",
    )
    count, message = line.split(" ", 1)
    assert 0 < int(count) < 30 and message == "profile: 22 records of what CUDA devices did are lost"


def test_one_recording_of_devices_at_a_time():
    assert run(
        """
        x = torch.rand(8, device="cuda")
        with profile(activities=[CUDA]) as p:
            for activities in ([CUDA], [CPU, CUDA]):
                try:
                    profile(activities=activities).__enter__()
                except RuntimeError as error:
                    print(error)
            x.exp()
        print(len(p.events()))
        with profile() as p:
            x.exp()
        print(len(p.events()))
        """
    ) == ["profile: expected no recording of devices to run, got another one that does"] * 2 + ["1", "2"]
