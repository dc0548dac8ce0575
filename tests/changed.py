"""`make check`: the style of changed files and the tests of changed topics, in as many processes as there are cores.

    python tests/changed.py [--since REF] [--list] [arguments of pytest]

Changed is what differs from where the branch left main, and what git does not know yet. Words of a file's path find its tests:
`src/cpu/isa/conv.cpp`, `facula/nn/modules/conv.py` and `ops/conv.yaml` those that begin with `tests/test_conv`, and an op's topic the cases
of that topic in the tests of all ops. Tests marked `slow` are left to `make test`.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ALWAYS = {"tests/test_tiny.py": "always", "tests/test_repo.py": "always: structure"}

# tests of every op, and where a change of a topic concerns them
EVERY_OP = "tests/test_ops.py"
EVERY_OP_ON_CUDA = "tests/test_cuda_ops.py"
OF_OPS = ("ops/", "src/kernels/", "src/ops/", "src/cpu/", "src/cuda/", "src/autograd/", "src/composite/")

# files whose tests have other words: a pattern, and the tests
ELSEWHERE = {
    "codegen/*": "ops tensor autograd elementary repo",
    "src/core/*": "ops tensor storage autograd elementary",
    "src/ops/*": "ops tensor shape elementary",
    "src/observe/*": "dispatch profiler",
    "src/composite/*": "ops compat_operators",
    "src/autograd/*": "autograd gradcheck",
    "src/cpu/*gemm*": "matmul",
    "src/cpu/*blas*": "matmul linalg",
    "src/cpu/*onednn*": "conv matmul pool",
    "src/cpu/*": "ops kernels",
    "src/capi/*": "c_interface",
    "src/run/*": "run",
    "src/cuda/*": "cuda_ops",
    "src/emulator/*": "cuda",
    "src/python/*": "tensor arguments create interop threads",
    "include/*": "cxx c_interface cpp_extension",
    "bindings/rust/*": "rust",
    "facula/functions/*": "docstrings arguments",
    "facula/nn/*": "docstrings arguments nn_modules nn_functional formulas",
    "facula/optim/*": "docstrings arguments compat formulas",
    "facula/distributions/*": "docstrings arguments compat formulas",
    "facula/*": "docstrings arguments compat",
    "docs/site/*": "docs site statements formulas",
    "docs/*": "docs site statements",
    "*.md": "docs site statements",
    "examples/*": "examples",
    "benchmarks/*": "benchmark",
    "pyproject.toml": "packaging",
    "Makefile": "repo",
    ".ci/*": "repo packaging",
    "cmake/*": "packaging",
    "CMakeLists.txt": "packaging",
    "tests/conftest.py": "checks",
}  # fmt: skip
# words of paths that say what kind of file it is, not what it is about
KINDS = set("src cpu isa kernels facula functions modules tests core ops composite autograd formulas batching rules python nn util utils test py".split())


@dataclass
class Choice:
    """Tests, by file, each with the changed file that asks for it; and topics of which tests of every op run the cases."""

    tests: dict[str, str] = field(default_factory=dict)
    topics: set[str] = field(default_factory=set)
    untested: list[str] = field(default_factory=list)

    def add(self, tests: Iterable[str], why: str) -> bool:
        found = list(tests)
        for test in found:
            self.tests.setdefault(test, why)
        return bool(found)


def choose(changed: Iterable[str], tests: Iterable[str], topics: Iterable[str], users=lambda helper: ()) -> Choice:
    """The tests for changed files (paths from the root), out of `tests`; `topics` are those of ops, `users(path)` tests that import a helper."""
    choice, tests, topics = Choice(dict(ALWAYS)), sorted(tests), set(topics)
    for path in changed:
        if path in tests:
            choice.add([path], "changed")
            continue
        if path.startswith("tests/") and path.endswith(".py"):
            choice.add(users(path), f"imports {path}")
        found = choice.add(named(path, tests), path)
        topic = topic_of(path, topics) if path.startswith(OF_OPS) else None
        if topic:
            choice.topics.add(topic)
            choice.add([EVERY_OP, *[EVERY_OP_ON_CUDA] * path.startswith("src/cuda/")], f"{path}: ops of {topic}")
        words = next((words.split() for pattern, words in ELSEWHERE.items() if fnmatch.fnmatch(path, pattern)), [])
        if topic and {"ops", "cuda_ops"} & {*words}:
            words = []  # its own topic says more than that it concerns ops
        choice.topics |= topics if {"ops", "cuda_ops"} & {*words} else topics & {*words}
        words += ["ops"] * bool(topics & {*words})
        found |= choice.add((test for word in words for test in beginning(word, tests)), path)
        if not found and not topic and not path.startswith("tests/"):
            choice.untested.append(path)
    return choice


def words_of(path: str) -> list[str]:
    return Path(path).stem.removeprefix("test_").strip("_").split("_")


def beginning(word: str, tests: Iterable[str]) -> list[str]:
    """Tests whose name begins with a word, or with its plural or singular."""
    return [test for test in tests if re.match(rf"tests/test_{re.escape(word)}s?(_|\.py)", test)]


def named(path: str, tests: list[str]) -> list[str]:
    """Tests that have the words of a path: of its name, as many as there are, or else of the folder that it stands in."""
    words, folders = words_of(path), [f for f in Path(path).parts[:-1] if f.strip("_.") not in KINDS]
    runs = [words[i:j] for i in range(len(words)) for j in range(i + 1, len(words) + 1) if not KINDS.issuperset(words[i:j])]
    for run in sorted(runs, key=len, reverse=True):
        name = "_".join(run)
        found = next((beginning(f"{folder}_{name}", tests) for folder in reversed(folders) if beginning(f"{folder}_{name}", tests)), [])
        if found or (found := beginning(name, tests)):
            return found
    return next((found for folder in reversed(folders) if (found := beginning(folder.strip("_"), tests))), [])


def topic_of(path: str, topics: set[str]) -> str | None:
    words = words_of(path)
    runs = ["_".join(words[i:j]) for i in range(len(words)) for j in range(len(words), i, -1)]
    return next((run for run in runs if run in topics), None)


# ---- what git and the folder say


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.split("\n") if done.returncode == 0 else []


def base() -> str:
    """Return the commit where the branch left main; HEAD where there is no main, or on it."""
    for branch in ("origin/main", "main"):
        found = git("merge-base", "HEAD", branch)
        if found:
            return found[0]
    return "HEAD"


def changed_files(since: str) -> list[str]:
    names = git("diff", "--name-only", since) + git("ls-files", "--others", "--exclude-standard")
    return sorted({name for name in names if name})


def importers(helper: str) -> list[str]:
    """Tests that import a module of the folder tests, themselves or by another one."""
    module, found = Path(helper).stem, []
    importing = re.compile(rf"^\s*(from|import) +(\w+\.)*{re.escape(module)}\b", re.M)
    for path in sorted((ROOT / "tests").glob("*.py")):
        if importing.search(path.read_text()):
            name = path.relative_to(ROOT).as_posix()
            found += [name] if path.name.startswith("test_") else importers(name)
    return found


def style(changed: list[str]) -> int:
    there = [path for path in changed if (ROOT / path).is_file()]
    return subprocess.run([ROOT / ".ci" / "lint", "--only", *there], cwd=ROOT).returncode


def environment() -> dict[str, str]:
    """A build in the checkout goes before an installed package, also for programs that tests start elsewhere."""
    before = [str(ROOT)] if list((ROOT / "facula").glob("_C.*")) else []
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*before, *filter(None, [os.environ.get("PYTHONPATH")])])}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--since", default=base(), help="what to compare with (default: where the branch left main)")
    parser.add_argument("--list", action="store_true", help="say what is chosen, and run nothing")
    options, more = parser.parse_known_args()
    changed = changed_files(options.since)
    tests = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").glob("test_*.py")]
    choice = choose(changed, tests, [path.stem for path in (ROOT / "ops").glob("*.yaml")], importers)
    print(f"{len(changed)} files differ from {options.since[:12]}; their tests:")
    for test, why in choice.tests.items():
        print(f"  {test:42} {why}")
    if choice.untested:
        print("no test has a word of " + ", ".join(choice.untested))
    if options.list:
        return 0
    sys.stdout.flush()
    failed = style(changed)
    topics = [f"--topics={','.join(sorted(choice.topics))}"] if choice.topics else []
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "-m", "not slow", *topics, *more, *choice.tests]
    return subprocess.run(command, cwd=ROOT, env=environment()).returncode or failed


if __name__ == "__main__":
    sys.exit(main())
