"""What devices do, in profiles: rows of tables, traces with arrows, and a host that runs ahead."""

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
    return done.stdout.splitlines()


def test_tables_show_the_time_of_the_device():
    assert run(
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
    run(
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
    assert run(
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
    assert run(
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
    assert run(
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
    assert run(
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
