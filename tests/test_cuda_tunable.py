"""Which of cuBLASLt's ways products take: tried, kept in files, read again. The stand-in proposes four, each faster than the
one before; the last one is inexact."""

import subprocess
import sys
import textwrap

from cuda_environment import environment

BEGIN = """
import warnings
import facula as t
from facula.cuda import tunable
from cuda_stand_in import request_lines
def ways():
    return [int(line.rpartition("=")[2]) for line in request_lines() if line.startswith("cublasLtMatmul ")]
t.manual_seed(1)
"""


def run(program, folder, **more):
    command = [sys.executable, "-c", BEGIN + textwrap.dedent(program)]
    done = subprocess.run(
        command, env=environment(FACULA_CUDA="emulated", **more), capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


SETTINGS = """
tunable.set_max_tuning_duration(10)
tunable.set_max_tuning_iterations(1)
"""


def test_ways_are_tried_once_and_kept(tmp_path):
    assert run(
        SETTINGS
        + """
a, b, bias = t.rand(5, 70), t.rand(70, 4), t.rand(4)
there = a.cuda(), b.cuda(), bias.cuda()
def products():
    got = [there[0] @ there[1], t.nn.functional.linear(there[0], there[1].t(), there[2]), there[0].expand(3, 5, 70) @ there[1].expand(3, 70, 4)]
    got.append(t.addmm(t.ones(5, 4, device="cuda"), there[0], there[1], beta=0.5))
    wanted = [a @ b, t.addmm(bias, a, b), (a @ b).expand(3, 5, 4), t.addmm(t.ones(5, 4), a, b, beta=0.5)]
    assert all(t.allclose(g.cpu(), w, rtol=1e-4) for g, w in zip(got, wanted))
products()
print(ways(), tunable.is_enabled(), tunable.get_results())  # nothing is tried
tunable.enable()
tunable.set_numerical_check_tolerances(True, 1e-3, 1e-3)
products()
ways()
products()
print(ways())  # the fastest one that is exact
for op, sizes, way, time in tunable.get_results():
    print(op, sizes, way, time > 0)
tunable.enable(False)
products()
print(ways())
tunable.enable()
tunable.set_filename("none.csv")
tunable.set_numerical_check_tolerances(False)
there[0].t() @ there[0]
there[0].t() @ there[0]
print(ways()[-1], tunable.get_results()[-1][:3])
""",
        tmp_path,
    ) == [
        "[0, 0, 0, 0] False ()", "[2, 2, 2, 2]", "GemmAndBiasTunableOp_float_NN nn_4_5_70_ld_4_70_4 Gemm_CublasLt_2 True",
        "GemmStridedBatchedTunableOp_float_NN nn_4_5_70_B_3_ld_4_70_4 Gemm_CublasLt_2 True",
        "GemmTunableOp_float_NN nn_4_5_70_ld_4_70_4 Gemm_CublasLt_2 True", "[0, 0, 0, 0]",
        "3 ('GemmTunableOp_float_NT', 'nt_70_70_5_ld_70_70_70', 'Gemm_CublasLt_3')",
    ]  # fmt: skip
    lines = (tmp_path / "tunableop_results0.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines[:2]] == ["Validator"] * 2 and len(lines) == 5
    assert lines[-1].startswith("GemmTunableOp_float_NN,nn_4_5_70_ld_4_70_4,Gemm_CublasLt_2,")


def test_files_are_read_and_checked(tmp_path):
    first = "a = t.rand(5, 70, device='cuda')\na @ a.t()\nprint(len(ways()), tunable.get_filename())"
    switched = {"PYTORCH_TUNABLEOP_ENABLED": "1", "PYTORCH_TUNABLEOP_MAX_TUNING_ITERATIONS": "1"}
    (line,) = run(first, tmp_path, **switched)
    assert int(line.split()[0]) > 4 and line.split()[1] == "tunableop_results0.csv"
    again = first + "\nprint(tunable.read_file('other.csv'), tunable.read_file())"
    assert run(again, tmp_path, **switched) == ["1 tunableop_results0.csv", "False True"]
    path = tmp_path / "tunableop_results0.csv"
    path.write_text(path.read_text().replace("Gemm_CublasLt_3", "Default"))
    assert run(first + "\na @ a.t()\nprint(ways())", tmp_path, **switched)[1] == "[0]"
    path.write_text(path.read_text().replace("Facula's emulated device", "another"))
    assert run("print(tunable.read_file())", tmp_path) == ["False"]
    assert int(run(first, tmp_path, **switched)[0].split()[0]) > 4  # tried anew


def test_untuned_problems_are_written_and_tuned_later(tmp_path):
    program = """
        a, b, bias = t.rand(5, 70, device="cuda"), t.rand(4, 70, device="cuda"), t.rand(4, device="cuda")
        h = a.half()
        print(len([a @ b.t(), t.nn.functional.linear(a, b, bias), a.t() @ a, h @ h.t(), a.expand(2, 5, 70) @ a.t().expand(2, 70, 5),
            a[:, 3:40] @ b[:, 3:40].t(), (a[:, :5] @ a)]))
        """
    switched = {
        "PYTORCH_TUNABLEOP_ENABLED": "1", "PYTORCH_TUNABLEOP_TUNING": "0", "PYTORCH_TUNABLEOP_RECORD_UNTUNED": "1",
    }  # fmt: skip
    run(program, tmp_path, **switched)
    untuned = (tmp_path / "tunableop_untuned0.csv").read_text().splitlines()
    assert len(untuned) == 7 and not (tmp_path / "tunableop_results0.csv").exists()
    assert run(
        SETTINGS
        + """
try:
    tunable.tune_gemm_in_file("tunableop_untuned0.csv")
except AssertionError as error:
    print(error)
tunable.enable()
tunable.tune_gemm_in_file("tunableop_untuned0.csv")
found = {row[:2] for row in tunable.get_results()}
print(sorted(",".join(row) for row in found) == sorted(open("tunableop_untuned0.csv").read().split()))
if __name__ == "__main__":
    try:
        tunable.mgpu_tune_gemm_in_file("tunableop_untuned?.csv", 2)
    except ValueError as error:
        print(error)
""",
        tmp_path,
    ) == [
        "cuda.tunable.tune_gemm_in_file: TunableOp is not enabled", "True",
        "mgpu_tune_gemm_in_file: 1 to 1 devices, got 2",
    ]  # fmt: skip
    (tmp_path / "main.py").write_text(
        "from facula.cuda import tunable\nif __name__ == '__main__':\n    tunable.enable()\n"
        "    tunable.set_filename('parts.csv', True)\n    tunable.mgpu_tune_gemm_in_file('tunableop_untuned?.csv', 2)\n"
    )
    done = subprocess.run(
        [sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True,
        env=environment(FACULA_CUDA="emulated", FACULA_EMULATED_DEVICES="2", PYTORCH_TUNABLEOP_MAX_TUNING_ITERATIONS="1"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    whole = (tmp_path / "parts_full1.csv").read_text().splitlines()
    assert len(whole) == 9 and {",".join(line.split(",")[:2]) for line in whole[2:]} == set(untuned)


def test_nothing_is_tried_in_a_capture_and_settings(tmp_path):
    assert run(
        """
        tunable.enable()
        a = t.rand(3, 70, device="cuda")
        graph = t.cuda.CUDAGraph()
        with t.cuda.graph(graph):
            b = a @ a.t()
        graph.replay()
        captured = len(tunable.get_results())
        tunable.set_max_tuning_iterations(1)
        tunable.set_numerical_check_tolerances(True)
        print(t.allclose(b.cpu(), (a @ a.t()).cpu(), rtol=1e-4), captured, len(tunable.get_results()))
        print(tunable.get_max_tuning_duration(), tunable.get_max_tuning_iterations(), tunable.tuning_is_enabled(),
            tunable.record_untuned_is_enabled(), tunable.get_rotating_buffer_size(), dict(tunable.get_validators())["DEVICE"])
        for f, value in ((tunable.set_rotating_buffer_size, 3), (tunable.set_max_tuning_duration, -1)):
            try:
                f(value)
            except (NotImplementedError, ValueError) as error:
                print(error)
        """,
        tmp_path,
    ) == [
        "True 0 1", "30 1 True False 0 Facula's emulated device",
        "cuda.tunable.set_rotating_buffer_size: tries do not rotate memory, got 3",
        "cuda.tunable.set_max_tuning_duration: expected a number from 0 on, got -1",
    ]  # fmt: skip
