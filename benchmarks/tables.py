"""Write tables of pages in docs from benchmarks/results: `python benchmarks/tables.py`.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; each figure comes from one file, so that no two pages can
disagree. `--check` writes nothing and fails where a page is not what the results give.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Iterable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
MARKED = re.compile(r"(<!-- table: ([\w ]+) -->\n).*?(<!-- end -->)", re.S)
LEVELS = {"v3": "AVX2", "v4": "AVX-512"}
SIZES = {"small": "some 250 elements", "middle": "65,536 elements", "large": "a million elements"}
MICRO = {"small": "ops, four elements", "modules": "small modules", "math": "functions, a million elements"}
FRAMEWORKS = {
    "facula": "Facula", "torch": "PyTorch", "jax": "JAX", "tensorflow": "TensorFlow", "paddle": "PaddlePaddle",
    "mxnet": "MXNet",
}  # fmt: skip


def read(stem: str) -> dict:
    return json.loads((RESULTS / f"{stem}.json").read_text())


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]]) + "\n"


def figure(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio >= 10 else f"{ratio:.2f}"


def by(rows: list[dict], key) -> dict[str, list[dict]]:
    groups: dict[str, list[dict]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def summary(what: str, stem: str, rows: list[dict], threads: int, level: str = "", key: str = "ratio") -> list[str]:
    """Return a row of the table of all ratios."""
    ratios = [row[key] for row in rows]
    level = level or LEVELS[re.findall(r"_(v\d)_", stem)[0]]
    shares = [figure(value) for value in (min(ratios), statistics.median(ratios), max(ratios))]
    below = sum(ratio < 0.9 for ratio in ratios)
    return [what, level, str(threads), f"{len(ratios):,}", *shares, str(below), f"`{stem}.json`"]


def all_ratios() -> str:
    groups = by(read("micro_v3_2core_amd")["rows"], lambda row: row["group"])
    rows = [summary(words, "micro_v3_2core_amd", groups[group], 1) for group, words in MICRO.items()]
    for stem, threads in (("sweep_v3_1t_2core_amd", 1), ("sweep_v3_2t_2core_amd", 2), ("sweep_v4_1t_2core_amd", 1)):
        groups = by(read(stem)["cases"], lambda case: case["size"])
        rows += [summary(f"ops, {words}", stem, groups[size], threads) for size, words in SIZES.items() if size in groups]
    for stem in ("products_v3_1t_2core_amd", "products_float32_v4_1t_2core_amd"):
        groups = by(read(stem)["rows"], lambda row: row["name"].split()[0])
        rows += [summary(f"products, {dtype}", stem, found, 1) for dtype, found in groups.items()]
    for stem, threads in (("fft_v3_2core_amd", 1), ("fft_v3_2t_2core_amd", 2)):
        rows.append(summary("Fourier transforms", stem, read(stem)["rows"], threads))
    rows.append(summary("sparse matrices", "sparse_v4_1t_2core_amd", read("sparse_v4_1t_2core_amd")["rows"], 1))
    for what, stem in (
        ("training steps", "models_v3_1t_2core_amd"), ("training steps", "models_v3_2t_2core_amd"),
        ("training steps, more networks of images", "models_images_v3_1t_2core_amd"),
        ("training steps, more networks of images", "models_images_v3_2t_2core_amd"),
        ("training steps", "models_v4_2t_2core_amd"), ("training steps, Zen 5", "models_v4_2t_2core_amd_zen5"),
        ("programs of users", "applications_v4_2t_2core_amd"),
    ):  # fmt: skip
        found = read(stem)
        rows.append(summary(what, stem, found["rows"], found["threads"]))
    stem = "models_compiled_v3_2t_2core_amd"
    rows.append(summary("training steps against `torch.compile`", stem, read(stem)["rows"], 2, key="ratio_compiled"))
    found = [{"ratio": inductor / ours} for _, ours, inductor, _ in compile_times() if inductor]
    rows.append(summary("programs in light ops, both compiled", "compile_v4_1t_2core_amd", found, 1))
    stem = "cuda_host_2core_amd"
    rows.append(summary("an op on CUDA, the host's part", stem, read(stem)["rows"], 1, "AVX2"))
    return table(
        ("what", "instructions", "threads", "cases", "lowest", "median", "highest", "below 0.9", "results"), rows
    )


def ops() -> str:
    cases = read("sweep_v3_1t_2core_amd")["cases"]
    one, two, three = (
        statistics.median(case["ratio"] for case in cases if case["size"] == size) for size in ("small", "middle", "large")
    )
    below = sum(case["ratio"] < 0.9 for case in cases)
    return (
        f"With AVX2 and one thread: The median ratio is {one:.2f} for some 250 elements, {two:.2f} for 65,536 and "
        f"{three:.2f} for a million. Of\n{len(cases):,} cases {below} are below 0.9.\n"
    )


def slower(stem: str) -> str:
    """Return the ops that take clearly longer than in PyTorch, as the sweep calls them."""
    cases = sorted((case for case in read(stem)["cases"] if case["ratio"] < 0.9), key=lambda case: case["ratio"])
    called = ("`" + re.sub(r" +\[\+ backward\]", "` with gradient", case["case"].replace(" | ", ", ")) for case in cases)
    names = (name if name.endswith("gradient") else f"{name}`" for name in called)
    rows = [[name, case["size"], f"{case['ratio']:.3f}"] for name, case in zip(names, cases, strict=True)]
    return table(("op", "size", "ratio"), rows)


def model_files() -> list[dict[str, dict]]:
    stems = (
        ("models_v3_2t_2core_amd", "models_images_v3_2t_2core_amd"), ("models_compiled_v3_2t_2core_amd",),
        ("models_v4_2t_2core_amd",), ("models_v4_2t_2core_amd_zen5",),
    )  # fmt: skip
    return [{row["model"]: row for stem in group for row in read(stem)["rows"]} for group in stems]


def models() -> str:
    files = model_files()
    keys = ("ratio", "ratio_compiled", "ratio", "ratio")
    rows = []
    for model, row in files[2].items():
        ratios = [figure(found[model][key]) if model in found else "" for found, key in zip(files, keys, strict=True)]
        rows.append([row["name"], *ratios])
    return table(("training step", "AVX2, Zen 3", "AVX2, against `torch.compile`", "AVX-512, Zen 4", "AVX-512, Zen 5"), rows)


def peaks(column: int) -> str:
    """Return what belongs to the ratios of one column of the table of models."""
    rows = []
    for row in model_files()[column].values():
        ours, theirs = row["measured"]["facula"], row["measured"]["torch"]
        limits = [f"{100 * found['limit_share']:.0f} %" for found in (ours, theirs)]
        memory = [f"{found['peak']:,.0f}" for found in (ours, theirs)]
        aim = row.get("target")
        rows.append([row["name"], figure(row["ratio"]), f"{aim:g}" if aim else "", *limits, *memory])
    head = ("training step", "ratio", "aim", "share of the limit", "of it in PyTorch", "peak memory, MiB", "of PyTorch")
    return table(head, rows)


def applications() -> str:
    rows = read("applications_v4_2t_2core_amd")["rows"]
    return table(
        ("program", "Facula, ms", "ratio"),
        [[row["name"], f"{1e3 * row['measured']['facula']['seconds']:.3g}", figure(row["ratio"])] for row in rows],
    )


def frameworks() -> str:
    found = read("table1_2t_2core_amd")
    rows = []
    for key, words in FRAMEWORKS.items():
        name = words if key == "facula" else f"{words} {found['versions'][key].partition('+')[0]}"
        speeds = [row["measured"].get(key, {}).get("per_second") for row in found["rows"]]
        rows.append([name, *("-" if speed is None else f"{speed:,.{0 if speed > 1000 else 1}f}" for speed in speeds)])
    heads = [f"{row['name'].partition(',')[0]}, {row['unit']}" for row in found["rows"]]
    return table(("framework", *heads), rows)


def products() -> str:
    rows = []
    for stem in ("products_v3_1t_2core_amd", "products_float32_v4_1t_2core_amd"):
        level = LEVELS[re.findall(r"_(v\d)_", stem)[0]]
        for kind, found in by(read(stem)["rows"], lambda row: f"{row['name'].split()[0]} | {row['group']}").items():
            cells = []
            for layout in ("NN", "NT", "TN"):
                ratios = [row["ratio"] for row in found if row["name"].split()[1] == layout]
                cells.append(f"{figure(min(ratios))} to {figure(max(ratios))}")
            rows.append([level, kind, *cells])
    return table(("instructions", "elements", "kind", "NN", "NT", "TN"), rows)


def transforms() -> str:
    one, two = (
        by(read(stem)["rows"], lambda row: row["group"]) for stem in ("fft_v3_2core_amd", "fft_v3_2t_2core_amd")
    )

    def cell(rows: list[dict]) -> str:
        ratios = [row["ratio"] for row in rows]
        return f"{figure(statistics.median(ratios))} ({figure(min(ratios))})"

    return table(("cases", "one thread", "two threads"), [[group, cell(rows), cell(two[group])] for group, rows in one.items()])


def compile_times() -> list[tuple[str, float, float | None, dict]]:
    """Programs of compile.py: name, time compiled here, time under inductor, all that was measured."""
    found = read("compile_v4_1t_2core_amd")["programs"].items()
    return [(n, m["facula compiled"]["us"], (m.get("torch compiled") or {}).get("us"), m) for n, m in found]


def compiled() -> str:
    notes = {"pass": " (called as it is)", "replay": " (replayed)"}
    rows = []
    for name, ours, inductor, all_of_it in compile_times():
        eager, note = all_of_it["facula eager"]["us"], notes.get(all_of_it["facula compiled"]["state"], "")
        theirs = [f"{inductor / 1e3:.3g}", f"{inductor / ours:.2f}"] if inductor else ["refused", "-"]
        rows.append([name, f"{eager / 1e3:.3g}", f"{ours / 1e3:.3g}", f"{eager / ours:.2f}{note}", *theirs])
    return table(("program", "eager", "compiled", "eager over compiled", "inductor", "inductor over compiled"), rows)


def all_reduce() -> str:
    sizes = {"4": "4 bytes", "65536": "64 KB", "1048576": "1 MB", "4194304": "4 MB", "26214400": "25 MB", "104857600": "100 MB"}
    rows = []
    for ranks, times in read("distributed_2core_amd")["all_reduce"].items():
        rows.append([ranks, *(f"{times[n][0] / times[n][1]:.2g}" if n in times else "" for n in sizes)])
    return table(("`all_reduce`", *sizes.values()), rows)


def data_parallel() -> str:
    steps = read("distributed_2core_amd")["cost of DistributedDataParallel, 2 ranks"]
    rows = [[name, f"{theirs:.3g}", f"{ours:.2g}"] for name, (theirs, ours) in steps.items()]
    return table(("what a step of 2 ranks costs more", "PyTorch, ms", "Facula, ms"), rows)


def cuda_host() -> str:
    rows = read("cuda_host_2core_amd")["rows"]
    cells = [[f"`{r['name']}`", f"{r['facula_us']:.2f}", f"{r['torch_cpu_us']:.2f}", f"{r['ratio']:.2f}"] for r in rows]
    mean = statistics.geometric_mean(row["ratio"] for row in rows)
    return table(("op", "Facula, us", "PyTorch on the CPU, us", "ratio"), cells) + f"\nThe geometric mean is {mean:.1f}.\n"


TABLES = {
    "all ratios": all_ratios, "ops": ops, "models": models, "applications": applications,
    "peaks with AVX2": partial(peaks, 0), "peaks with AVX512": partial(peaks, 2),
    "frameworks": frameworks, "products": products, "transforms": transforms, "cuda host": cuda_host, "compiled": compiled,
    "slower with AVX2": partial(slower, "sweep_v3_1t_2core_amd"),
    "slower on two threads": partial(slower, "sweep_v3_2t_2core_amd"),
    "slower with AVX512": partial(slower, "sweep_v4_1t_2core_amd"),
    "all reduce": all_reduce, "data parallel": data_parallel,
}  # fmt: skip


def filled(text: str) -> str:
    """Return the text of a page with its tables as the results give them."""
    return MARKED.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}{found[3]}", text)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page is not current")
    options = parser.parse_args(arguments)
    old = [path for path in sorted((ROOT / "docs").glob("*.md")) if filled(path.read_text()) != path.read_text()]
    for path in old:
        print(f"{'not current' if options.check else 'written'}: {path.relative_to(ROOT)}")
        if not options.check:
            path.write_text(filled(path.read_text()))
    return 1 if options.check and old else 0


if __name__ == "__main__":
    raise SystemExit(main())
