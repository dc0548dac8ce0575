"""Compare with PyTorch installed beside Facula and print one table: `make compare`, or parts of it by name.

    FACULA_COMPARE_TORCH=PYTHON python -m tests.compare [random] [modules] [saved] [texts] [parity] [peer] [programs]

| variable | what it says | default |
|---|---|---|
| FACULA_COMPARE_TORCH | a Python that has PyTorch 2.13 and NumPy; random, modules, saved, texts and peer need it | |
| FACULA_COMPARE_SHARED | the folder of what is not in the repository: parity, peer_suite, programs | ../shared |
| FACULA_COMPARE_COUNT | how many random programs | 12000 |
| FACULA_COMPARE_SEED | which ones | compare |
| FACULA_COMPARE_WORK | where results are written | build/compare |

A part of which something is missing says so in its row, and the others run.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
if not __package__:  # `python tests/compare`: the package is found without the sources of Facula, an installed one is meant
    sys.path[0] = str(HERE.parent)
    __package__ = "compare"
    import compare  # noqa: F401

from . import differences, grammar  # noqa: E402

WORK = Path(os.environ.get("FACULA_COMPARE_WORK", ROOT / "build" / "compare"))
SHARED = Path(os.environ.get("FACULA_COMPARE_SHARED", ROOT.parent / "shared"))
COUNT = int(os.environ.get("FACULA_COMPARE_COUNT", "12000"))
SEED = os.environ.get("FACULA_COMPARE_SEED", "compare")
ENVIRONMENT = dict(os.environ)
if "PYTHONPATH" in os.environ:  # commands run in other folders
    ENVIRONMENT["PYTHONPATH"] = os.pathsep.join(os.path.abspath(part) for part in os.environ["PYTHONPATH"].split(os.pathsep))


class Missing(Exception):
    """What a part needs and does not find."""


def peer() -> str:
    found = os.environ.get("FACULA_COMPARE_TORCH")
    if not found:
        raise Missing("FACULA_COMPARE_TORCH, a Python with PyTorch, is not set")
    if subprocess.run([found, "-c", "import torch, numpy"], capture_output=True).returncode:
        raise Missing(f"FACULA_COMPARE_TORCH: {found} cannot import torch and numpy")
    return found


def folder(name: str) -> Path:
    if not (SHARED / name).is_dir():
        raise Missing(f"no folder {SHARED / name} (FACULA_COMPARE_SHARED)")
    return SHARED / name


def both(script: str, *arguments, results: str) -> tuple[Path, Path]:
    """Run a script of this folder under PyTorch and under Facula; the last argument is where the results go."""
    paths = WORK / f"{results}.torch", WORK / f"{results}.facula"
    for command, path in zip(([peer()], [sys.executable, "-m", "facula"]), paths):
        # in another folder than the sources' an interpreter imports the installed package, or the one that PYTHONPATH names
        subprocess.run([*command, str(HERE / script), *map(str, arguments), str(path)], check=True, cwd=WORK, env=ENVIRONMENT)
    return paths


def random_programs():
    programs = grammar.programs(COUNT, SEED)
    source = WORK / "programs.json"
    source.write_text(json.dumps(programs))
    theirs, ours = both("execute.py", source, results="programs")
    summary = differences.compare(programs, str(theirs), str(ours))
    (WORK / "random.txt").write_text("\n".join(summary.lines(1000)) + "\n")
    same = summary.programs - summary.silent - summary.other
    return summary.programs, same, f"{summary.silent} silent, {summary.other} others; {WORK / 'random.txt'}"


def modules():
    from . import modules

    theirs, ours = both("modules.py", 4000, results="modules")
    count, different, lines = modules.compare(str(theirs), str(ours))
    (WORK / "modules.txt").write_text("\n".join(lines) + "\n")
    return count, count - different, str(WORK / "modules.txt")


def saved():
    theirs, ours = (json.loads(path.read_text()) for path in both("saved.py", folder("parity"), results="saved"))
    refused = [f"{name}: only Facula keeps {set(ours[name]) - set(kept)}" for name, kept in theirs.items() if set(ours.get(name, [])) - set(kept)]
    (WORK / "saved.txt").write_text("\n".join(refused) + "\n")
    return len(theirs), len(theirs) - len(refused), str(WORK / "saved.txt")


def texts():
    """Count the texts that are no other library's."""
    from . import texts

    found = subprocess.run([peer(), "-c", "import torch; print(torch.__path__[0])"], capture_output=True, text=True, check=True)
    seen, lines = texts.compare(ROOT, Path(found.stdout.strip()))
    (WORK / "texts.txt").write_text("\n".join(lines) + "\n")
    return seen, seen - len(lines), str(WORK / "texts.txt")


def parity():
    command = [sys.executable, str(folder("parity") / "check.py"), "--module", "facula", "--json", str(WORK / "parity.json")]
    text = output(command, "parity")
    counts = re.search(r"SUMMARY.* samples=(\d+)/(\d+)", text)
    return (int(counts[2]), int(counts[1]), str(WORK / "parity.json")) if counts else (0, 0, last_line(text))


def peer_suite():
    run = folder("peer_suite") / "run.py"
    settings = {"PEER_SUITE_PEER": peer(), "PEER_SUITE_OURS": sys.executable, "PEER_SUITE_WORK": os.environ.get("PEER_SUITE_WORK", str(WORK / "peer_suite"))}
    if not (Path(settings["PEER_SUITE_WORK"]) / "tree").is_dir():
        raise Missing(f"PyTorch's tests are not in {settings['PEER_SUITE_WORK']}; {run.parent}/README.md says how `run.py prepare` takes them")
    text = ""
    for step in ("both", "again", "report"):
        text = output([sys.executable, str(run), step], "peer_suite", ENVIRONMENT | settings)
    cells = [cell.strip() for cell in last_line(text).split("|")]  # | total | seen | run | pass under torch | of these under Facula | ...
    return (int(cells[4]), int(cells[5]), str(WORK / "peer_suite.txt")) if cells[1:2] == ["total"] else (0, 0, last_line(text))


def programs():
    if "FACULA_MIRROR" not in os.environ:
        raise Missing(f"FACULA_MIRROR, the snapshots of the programs' repositories, is not set ({folder('programs')}/README.md)")
    text = output([sys.executable, str(folder("programs") / "run.py"), "--with", "facula"], "programs", ENVIRONMENT | {"FACULA_TP_FACULA": sys.executable})
    counts = re.search(r"(\d+) passed, (\d+) failed", last_line(text))
    return (int(counts[1]) + int(counts[2]), int(counts[1]), str(WORK / "programs.txt")) if counts else (0, 0, last_line(text))


def output(command: list[str], name: str, environment=None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=environment or ENVIRONMENT, cwd=WORK)
    (WORK / f"{name}.txt").write_text(done.stdout + done.stderr)
    return done.stdout or done.stderr


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["nothing was printed"])[-1]


PARTS = {"random": random_programs, "modules": modules, "saved": saved, "texts": texts, "parity": parity, "peer": peer_suite, "programs": programs}


def main(names: list[str]) -> None:
    if names in (["--help"], ["-h"]):
        sys.exit(__doc__)
    unknown = set(names) - set(PARTS)
    if unknown:
        sys.exit(f"compare: parts are {', '.join(PARTS)}, got {', '.join(sorted(unknown))}")
    WORK.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in names or PARTS:
        try:
            cases, same, where = PARTS[name]()
            rows.append((name, str(cases), str(same), f"{100 * same / cases:.2f} %" if cases else "-", where))
        except Missing as missing:
            rows.append((name, "-", "-", "-", f"not run: {missing}"))
        except subprocess.CalledProcessError as failed:
            rows.append((name, "-", "-", "-", f"failed: {' '.join(failed.cmd)[:120]} ended with {failed.returncode}"))
    print("| part | cases | the same | share | where, or why not |\n|---|---|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
