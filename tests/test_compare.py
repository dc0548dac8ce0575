"""The comparison with PyTorch (tests/compare), as far as it can be tested without PyTorch: Facula stands for both sides."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest
from compare import accepted, differences, grammar

import facula

EXECUTE = Path(__file__).parent / "compare" / "execute.py"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Forty programs, and what was seen of them in a process of its own."""
    folder = tmp_path_factory.mktemp("compare")
    programs = grammar.programs(40, "test")
    (folder / "programs.json").write_text(json.dumps(programs))
    where = {"PYTHONPATH": str(Path(facula.__file__).parents[1])}
    command = [sys.executable, "-m", "facula", EXECUTE, folder / "programs.json", folder / "a.jsonl"]
    subprocess.run(command, check=True, cwd=folder, env=where)
    return programs, differences.read(folder / "a.jsonl")


def test_programs_follow_from_their_seed():
    assert grammar.programs(5, "a") == grammar.programs(5, "a") != grammar.programs(5, "b")


def test_every_program_can_be_parsed_and_every_slot_is_filled():
    for program in grammar.programs(2000, "parse"):
        for statement in program:
            compile(statement, "program", "exec")


def test_a_library_does_not_differ_from_itself(results):
    programs, rows = results
    assert len(rows) == len(programs) and not any(isinstance(row, str) for row in rows.values())
    for index, program in enumerate(programs):
        assert differences.of_program(program, rows[index], rows[index]) == []


def test_statements_run_and_gradients_are_seen(results):
    ends = [row[0] for rows in results[1].values() for row in rows]
    assert ends.count("ok") > len(ends) / 2 and "NameError" not in ends and "SyntaxError" not in ends
    assert '"grad"' in json.dumps(results[1])


def planted(results, change):
    """The kinds of differences found when something of the first tensor with a gradient is changed."""
    programs, rows = results
    for index, program in enumerate(programs):
        other = copy.deepcopy(rows[index])
        for row in other:
            for shown in row[2].values():
                if isinstance(shown, dict) and shown["requires_grad"] and shown["values"] and shown["dtype"] == "float64":
                    change(row, shown)
                    return [d.kind for d in differences.of_program(program, other, rows[index])]
    raise AssertionError("no tensor found")


@pytest.mark.parametrize(
    "key, value, kind", [("dtype", "float32", "dtype"), ("shape", [7], "shape"), ("requires_grad", False, "requires_grad"), ("values", ["nan"], "value"), ("stride", [9, 9, 9], "stride")]
)
def test_a_planted_difference_is_found(results, key, value, kind):
    assert planted(results, lambda row, shown: shown.update({key: value}))[0] == kind


def test_a_planted_exception_and_warning_are_found(results):
    assert planted(results, lambda row, shown: row.__setitem__(0, "ValueError"))[0] == "only Facula raises ValueError"
    assert planted(results, lambda row, shown: row.__setitem__(1, ["FutureWarning"]))[0].endswith("not FutureWarning")


def test_a_process_that_ends_is_a_silent_difference():
    (found,) = differences.of_program(["v0 = 1"], "died of signal 11", [["ok", [], {}, ""]])
    assert found.silent and found.kind == "died"


def test_accepted_differences_have_reasons_and_are_no_blank_cheques():
    kinds = ("value", "dtype", "gradient value", "only Facula raises TypeError")
    for reason, patterns in accepted.ACCEPTED.items():
        assert reason and patterns
        assert all(p.statement or p.said or p.program or p.kind.endswith("NotImplementedError") for p in patterns)
        assert all(p.only in ("", "nan", "extreme", "zero", "step") for p in patterns)
    assert not any(differences.accepted(["v1 = v0 + 1"], differences.Difference(kind, "v1 = v0 + 1", "", 0, " | ")) for kind in kinds)


def test_patterns_about_numbers_ask_for_them():
    def described(*values):
        return {"dtype": "float32", "shape": [len(values)], "values": list(values)}

    def reason(*values):
        pair = described(*values), described(1.0)
        return differences.accepted(["v1 = v0.lgamma()"], differences.Difference("value", "v1 = v0.lgamma()", "", 0, " | ", pair))

    assert reason(1e9) and reason("nan") and reason(2.0, float("inf")) and not reason(2.0)
