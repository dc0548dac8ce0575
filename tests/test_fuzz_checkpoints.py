"""A short round of the checkpoint fuzzer, and proof that it sees what it looks for."""

import os
import pathlib
import subprocess
import sys

from fuzz import fuzz_checkpoints as fuzz

TESTS = pathlib.Path(__file__).parent


def run(*command):
    """A program in the folder of the tests: the repository's own has an unbuilt facula, where the package is installed."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([*sys.path, os.environ.get("PYTHONPATH", "")]))
    return subprocess.run([sys.executable, *command], cwd=TESTS, capture_output=True, text=True, env=environment)


def test_damaged_checkpoints_end_in_an_object_or_a_clear_error():
    cases = os.environ.get("FACULA_FUZZ_CASES", "3000")
    done = run("-m", "fuzz.fuzz_checkpoints", "--cases", cases, "--seed", "1")
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    assert done.stdout.startswith(f"{int(cases):,} cases in ") and done.stdout.endswith(": nothing found\n")


def test_cases_depend_on_seed_and_number_alone():
    first, again, other = fuzz.Checkpoints(3), fuzz.Checkpoints(3), fuzz.Checkpoints(4)
    texts = [first.case(index) for index in range(20)]
    assert [again.case(index) for index in reversed(range(20))] == texts[::-1]
    assert [other.case(index) for index in range(20)] != texts


SEES = """
import base64, os, sys
import facula
from fuzz import fuzz_checkpoints as fuzz
fuzzer = fuzz.Checkpoints(0)
fuzzer.begin(0)
good = base64.b64encode(fuzzer.corpus.zips[0]).decode()
text = f"load({good!r}, True, 'file')"
print(fuzzer.check(text))
load = facula.load
for code in sys.argv[1:]:
    def loading(*args, **options):
        exec(code)
        return load(*args, **options)
    facula.load = loading
    print(fuzzer.check(text))
"""


def test_the_fuzzer_sees_what_a_load_must_not_do():
    expected = {
        "pass": "a load did more than read its file: compile (b'pass', '<string>'); exec ",
        "import antigravity": "; import ",
        "open('/dev/null')": "open ",
        "os.system('true')": "os.system ",
        "raise KeyError('x')": "builtins.KeyError: 'x'",
        "raise RuntimeError('x')": "an error's text: x",
    }
    done = run("-c", SEES, *expected)
    nothing, *seen = done.stdout.splitlines()
    assert nothing == "None" and len(seen) == len(expected), done.stderr[-2000:]
    for text, part in zip(seen, expected.values()):
        assert part in text
