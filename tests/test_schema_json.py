"""schema.json, what other languages generate functions from: every row is what the boxed table says."""

import json
import re
import sys
from pathlib import Path

import pytest

from facula import _C

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

from codegen import emit_schema_json, schema  # noqa: E402

# ops that programs need besides the schema's: rows of tables in C++
SOURCES = "".join(path.read_text() for path in (ROOT / "src" / "program").glob("*.cpp"))
BUILTINS = {f"{name}.{overload or 'default'}" for name, overload in re.findall(r'^    \{"(\w+)", "(\w*)"', SOURCES, re.M)}
BUILTINS |= {f"{name}_backward.default" for name in re.findall(r'^    FACULA_ROW\("(\w+)"', SOURCES, re.M)}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """The file as it is written, read again."""
    folder = tmp_path_factory.mktemp("schema")
    emit_schema_json.emit(schema.load(ROOT / "ops"), folder, lambda path, text: path.write_text(text))
    read = json.loads((folder / "schema.json").read_text())
    assert read["format"] == emit_schema_json.FORMAT and set(read) == {"format", "ops"}
    return read["ops"]


def default_of(value):
    return str(value).removeprefix("torch.") if type(value).__name__ == "memory_format" else value


def test_every_op_is_there_once(rows):
    keys = [row["key"] for row in rows]
    assert len(keys) == len(set(keys)) > 1300
    table = _C._boxed_keys()
    assert len(table) == len(set(table)) and not BUILTINS & set(keys)
    assert set(table) == BUILTINS | set(keys)


def test_rows_are_those_of_the_boxed_table(rows):
    for row in rows:
        known = _C._boxed_op(row["key"])
        aten = row["aten"] or ""
        if isinstance(aten, dict):
            aten = " ".join(f"{pattern}:{name}" for pattern, name in aten.items())
        assert [known[word] for word in ("name", "overload", "form", "aten", "draws")] == [
            row["name"], row["overload"], row["form"], aten, row["draws"]
        ], row  # fmt: skip
        assert known["results"] == [result["type"] for result in row["results"]], row
        assert known["result_names"] == [result["name"] for result in row["results"] if "name" in result], row
        told = [
            (a["name"], a["type"], a.get("keyword_only", False), "default" not in a, a.get("written", False), a.get("default"))
            for a in row["arguments"]
        ]
        table = [(*rest, default_of(default)) for *rest, default in known["arguments"]]
        assert told == table, row
        assert [type(a[5]) for a in told] == [type(a[5]) for a in table], row


def test_pytorchs_names_lead_to_a_row_with_that_name(rows):
    def names(row):
        return row["aten"].values() if isinstance(row["aten"], dict) else [row["aten"]] if row["aten"] else []

    by_key = {row["key"]: row for row in rows}
    for name in {name for row in rows for name in names(row)}:
        key = _C._boxed_by_aten(name)
        assert key in BUILTINS or name in names(by_key[key]), name


def test_what_a_row_says(rows):
    row = next(row for row in rows if row["key"] == "conv2d.default")
    assert row["arguments"][3] == {"name": "stride", "type": "int[2]", "default": [1, 1]}
    assert row["names"] == ["conv2d"] and not row["draws"]
    out = next(row for row in rows if row["key"] == "topk.default.out")
    assert [a["name"] for a in out["arguments"][:3]] == ["out0", "out1", "self"]
    assert [a.get("written", False) for a in out["arguments"][:3]] == [True, True, False]
