"""The first word of every docstring of a class or a file: a reader sees it first, so it says what the thing does or is."""

import ast
import functools
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("facula", "codegen", "benchmarks")

# openings of a clause or a phrase that is no sentence by itself
CLAUSES = set("How If What When Where Whether Which While Who Whose Why".split())
PREPOSITIONS = set(
    "Above Across After Along Among Around As At Because Before Behind Below Beside Besides Between By During For From In "
    "Inside Into Like Of On Over Since Through To Under Until Via With Within Without".split()
)
VAGUE = set("Anything Become Being Everything It Nothing One Others Several Some Something They".split())
PARTICIPLES = set("Accepted Asked Found Given Kept Known Made Raised Sent Shown Taken Told Wanted Written".split())

# what follows a plural noun ("Steps of a plan"), but no verb with its object ("Steps a plan")
AFTER_NOUN = set("and are as at between by for from in inside is not of on or that to under which whose with without".split())
# verbs that take no object, so that the next word does not distinguish them from nouns; verbs that no function's docstring has
ALWAYS_VERBS = set("Does Goes Has Is Knows Lives Looks Says Sees Stands Waits".split())
MORE_VERBS = set(
    "Carry Catch Collect Convolve Decide Define Describe Fetch Hold Implement Manage Match Measure Name Observe Provide "
    "Remember Report Represent Require Select Simulate Store Track Watch".split()
)
# words with the ending of a gerund that name a layer or an operation
NOUNS_IN_ING = set("Embedding Padding Pooling Pruning String".split())


@functools.cache
def docstrings():
    """Return (path, name, docstring) of classes and files, and the docstrings of functions; every file is parsed once."""
    of_classes, of_functions = [], []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, (ast.ClassDef, ast.Module)) and (text := ast.get_docstring(node)):
                    of_classes.append((path.relative_to(ROOT), getattr(node, "name", "the file"), text))
                elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (text := ast.get_docstring(node)):
                    of_functions.append(text)
    return of_classes, of_functions


@functools.cache
def verbs():
    """Return the openings of functions' docstrings, of which lint (D401) takes care, where they are verbs, and MORE_VERBS."""
    opened = {text.split()[0].strip(".,:;") for text in docstrings()[1]}
    return {word for word in opened if word.isalpha() and word.istitle()} | MORE_VERBS


def stems(word):
    """Return what a word in the third person may come from: of Carries also Carry, of Fetches also Fetch."""
    if not word.endswith("s") or word.endswith("ss"):
        return set()
    endings = [("s", ""), ("es", ""), ("ies", "y")]
    return {word.removesuffix(ending) + instead for ending, instead in endings if word.endswith(ending)}


def fault(text):
    """Return why a docstring may not open so, or None."""
    first, *rest = text.split()
    word = first.strip(".,:;")
    following = rest[0].strip(".,:;") if rest else ""
    for name, words in (("clause", CLAUSES), ("preposition", PREPOSITIONS), ("vague", VAGUE), ("participle", PARTICIPLES)):
        if word in words:
            return name
    if word in ALWAYS_VERBS or (stems(word) & verbs() and first == word and following not in AFTER_NOUN):
        return "third person"
    if first.endswith(":"):
        return "label"
    if not word[0].isupper():
        return "no word"
    return "gerund" if word.endswith("ing") and word not in NOUNS_IN_ING | verbs() else None


@pytest.mark.slow  # it parses every file
def test_docstrings_of_classes_and_files_open_with_what_they_do_or_are():
    refused = [f"{path}, {name}: {reason}: {text}" for path, name, text in docstrings()[0] if (reason := fault(text))]
    assert not refused, "\n".join(refused)
    assert len(docstrings()[0]) > 2400


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("What a bucket holds.", "clause"),
        ("How bytes become tensors.", "clause"),
        ("Within it, nothing is recorded.", "preposition"),
        ("As `Linear`, with rounded weights.", "preposition"),
        ("Something that happened.", "vague"),
        ("Kept for old programs.", "participle"),
        ("Writes one file.", "third person"),
        ("Carries lines to a file.", "third person"),
        ("Says which nodes are supported.", "third person"),
        ("Shows a tensor's memory.", "third person"),
        ("Adam: steps by running averages.", "label"),
        ("`memory_budget` of a device.", "no word"),
        ("Cutting a model into parts.", "gerund"),
        ("Hold the gradients of one bucket.", None),
        ("The state of one bucket. It is sent as a whole.", None),
        ("Steps of a plan, in the order in which they run.", None),
        ("Convolution layers.", None),
        ("Pass tensors through one node.", None),
    ],
)
def test_which_openings_are_refused(text, reason):
    assert fault(text) == reason
