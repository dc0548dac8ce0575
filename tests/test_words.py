"""One word for each thing: the glossary of CONTRIBUTING.md, and names in the sources that follow it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GLOSSARY = (ROOT / "CONTRIBUTING.md").read_text().partition("\n## Glossary\n")[2].partition("\n## ")[0]
ENTRIES = re.findall(r"^\| \*\*(.+?)\*\* \| (.+?) \|$", GLOSSARY, re.M)

# classes that are named by a word of the glossary, and the only file that may have one
CLASSES = {
    "Plan": "ops/iterator.h",
    "Recorder": "program/record.h",
    "Value": "program/value.h",
    "Program": "program/program.h",
    "Problem": None,
    "Rows": None,
    "Pinned": None,
    "Taps": None,
}

# words that stood for things that the glossary has another word for
REPLACED = {"settle": "materialize", "settled": "materialize", "told": "notify", "lender": "owner"}


def sources(*suffixes):
    return [p for p in (ROOT / "src").rglob("*") if p.suffix in suffixes]


def parts(identifier):
    """Return the words of a name in either style: kWideRow and wide_row have `wide` and `row`."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", identifier)]


def test_the_glossary_is_in_order_and_says_each_word_once():
    words = [word for word, _ in ENTRIES]
    assert len(words) >= 40
    assert words == sorted(set(words), key=str.lower)
    assert not set(REPLACED) & set(words)


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_of_the_glossary_stands_in_one_file(name):
    pattern = re.compile(rf"^[ ]*(?:struct|class) {name}\b[^;]*$", re.M)
    files = {p.relative_to(ROOT / "src").as_posix() for p in sources(".h", ".cpp", ".cuh") if pattern.search(p.read_text())}
    only = {CLASSES[name]} - {None}
    assert {f for f in files if not f.endswith(".cpp") or f.replace(".cpp", ".h") not in only} == only


def test_names_have_the_words_of_the_glossary():
    found = {}
    for path in sources(".h", ".cpp", ".cuh"):
        code = re.sub(r"//[^\n]*|\"(?:[^\"\\\n]|\\.)*\"", "", path.read_text())
        for identifier in set(re.findall(r"\b[A-Za-z_]\w*", code)):
            if old := REPLACED.keys() & set(parts(identifier)):
                found[identifier] = (path.name, [REPLACED[word] for word in old])
    assert not found
    assert parts("kSettledHalf") == ["k", "settled", "half"] and parts("is_told") == ["is", "told"]
