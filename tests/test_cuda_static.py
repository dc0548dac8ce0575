"""The gate on machine code of CUDA's kernels (benchmarks/cuda/static): what it reads out of code, what it predicts, what it refuses."""

import copy
import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))
compiler, instances, predict, sass, table = (
    importlib.import_module(f"benchmarks.cuda.static.{name}") for name in ("compiler", "instances", "predict", "sass", "table")
)


def instruction(at, text, barrier=7, wait=0):
    """Two lines as nvdisasm prints them: the bits of the second say which scoreboard is set and which are waited for."""
    high = barrier << 46 | wait << 52
    return f"        /*{at:04x}*/                   {text} ;    /* 0x{0:016x} */\n                                  /* 0x{high:016x} */\n"


def program(*lines):
    """A section of instructions; a text alone is a label."""
    text, at = "", 0
    for line in lines:
        if isinstance(line, str):
            text += f"{line}:\n"
        else:
            text, at = text + instruction(at, *line), at + 16
    return text


LOOP = program(
    ("S2R R0, SR_TID.X",),
    ".L_x_0",
    ("LDG.E.128 R4, desc[UR4][R2.64]", 0),
    ("LDG.E.128 R8, desc[UR4][R2.64+0x10]", 1),
    ("FADD R4, R4, R5", 7, 1),  # waits for the first only
    ("LDG.E R12, desc[UR4][R2.64+0x20]", 2),
    ("FADD R8, R8, R12", 7, 7),
    ("@P1 BRA `(.L_x_1)",),
    ("FMUL R8, R8, R8",),
    ("MUFU.EX2 R8, R8",),
    ".L_x_1",
    ("STG.E.64 desc[UR4][R2.64], R8",),
    ("@P0 BRA `(.L_x_0)",),
    ("EXIT",),
)
SAID = "Used 40 registers, 8 bytes spill stores, 512 bytes smem"


def test_the_cheapest_way_round_the_loop_counts():
    code = sass.analyze(LOOP, SAID, sass.Hints())
    (part,) = code.parts
    assert [i.head for i in part.way] == ["LDG", "LDG", "FADD", "LDG", "FADD", "BRA", "STG", "BRA"]
    assert (code.registers, code.spilled, code.shared) == (40, 8, 512)
    assert code.loads == {128: 2, 32: 1} and code.stores == {64: 1}
    dearest = sass.analyze(LOOP, SAID, sass.Hints(dearest=True))
    assert len(dearest.parts[0].way) == 10 and dearest.units == {"MUFU": 1}


def test_bytes_in_flight_end_where_the_scoreboard_is_waited_for():
    assert sass.analyze(LOOP, SAID, sass.Hints()).flight == 32
    late = LOOP.replace(f"0x{7 << 46 | 1 << 52:016x}", f"0x{7 << 46:016x}")  # nobody waits before the third load
    assert sass.analyze(late, SAID, sass.Hints()).flight == 36


def test_groups_of_asynchronous_copies_are_in_flight_until_their_wait():
    code, _ = sass.parse(program(
        ("LDGSTS.E.BYPASS.128 [R0], desc[UR4][R2.64]",), ("LDGDEPBAR",), ("LDGSTS.E.BYPASS.128 [R1], desc[UR4][R2.64]",),
        ("LDGDEPBAR",), ("DEPBAR.LE SB0, 0x1",), ("LDGSTS.E.BYPASS.128 [R1], desc[UR4][R2.64]",), ("DEPBAR.LE SB0, 0x0",),
    ))  # fmt: skip
    assert sass.in_flight(code, 1) == 32


def test_loops_inside_run_as_often_as_is_said():
    section = program(".L_x_0", ("LDG.E R1, [R2]", 0), ".L_x_1", ("FADD R1, R1, R1", 7, 1), ("@P1 BRA `(.L_x_1)",),
                      ("STG.E [R2], R1",), ("@P0 BRA `(.L_x_0)",), ("EXIT",))  # fmt: skip
    (part,) = sass.analyze(section, SAID, sass.Hints("outer", trips=(5,))).parts
    assert sum(part.often) == 3 + 2 * 5


def test_what_limits_a_kernel():
    instance = instances.Instance("x", "", read=36, write=8)
    code = sass.analyze(LOOP, SAID, sass.Hints())
    assert predict.instructions(code, instance) == 8
    h200 = predict.GPUS[-1]
    few = predict.bound(code, instance, 256, h200)
    code.flight = 4
    less = predict.bound(code, instance, 256, h200)
    assert few.share == 1 and less.limit == "in flight"
    assert less.share == pytest.approx(predict.resident_warps(code, instance, 256, 90) * 32 * 4 / h200.needed)
    assert predict.resident_warps(code, instance, 256, 90) == 48  # 40 registers


@pytest.fixture(scope="module")
def kept():
    return table.read_table()


def test_the_table_has_all_instances(kept):
    names = [i.name for i in instances.INSTANCES]
    assert len(set(names)) == len(names) and list(kept["kernels"]) == names
    assert all(list(rows) == [f"sm_{c}" for c in table.CAPABILITIES] for rows in kept["kernels"].values())


@pytest.mark.parametrize(
    "key, change",
    [("instructions", 1.2), ("flight", 0.5), ("warps", 0.5), ("widest_load", 0.5), ("spilled", 4), ("kernels", 1), ("tensor", 0)],
)
def test_what_falls_behind_is_found(key, change):
    row = {"instructions": 10.0, "flight": 64, "widest_load": 128, "registers": 32, "spilled": 0, "warps": 48,
           "tensor": {"HMMA": 16}, "kernels": 1}  # fmt: skip
    found = copy.deepcopy(row)
    assert table.worse(found, row) == []
    if key == "tensor":
        found["tensor"] = {}
    else:
        found[key] = row[key] + change if key in ("spilled", "kernels") else row[key] * change
    (said,) = table.worse(found, row)
    assert ("HMMA" if key == "tensor" else key) in said


def test_every_instance_launches_a_kernel():
    found = compiler.launched(instances.INSTANCES, 90)
    assert set(found) == {i.name for i in instances.INSTANCES}
    assert all("facula::cuda::" in kernel.expression and kernel.threads > 0 for kernel in found.values())


@pytest.mark.slow
def test_compiled_kernels_are_those_of_the_table(kept):
    try:
        compiler.disassembler(), compiler.compiler_folder()
    except compiler.Missing as missing:
        pytest.skip(str(missing))
    assert table.complaints(table.figures("f32 n=512", (90,)), kept) == []
