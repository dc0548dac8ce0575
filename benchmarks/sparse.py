"""Measure products of sparse and strided matrices, forwards and backwards: ratio of times PyTorch / Facula.

    python benchmarks/sparse.py [--threads 1] [--level v3] [--rounds 5] [--only TEXT] [--json FILE]

Needs PyTorch beside Facula. The matrix is 100,000 x 100,000 with 1,000,000 entries at random places, the strided one has
64 columns. "forward" is sparse.mm alone, "backward" the pass behind it, "dense" with a gradient for the strided matrix,
"both" also for the sparse one. Also: coalescing as many entries at random places, and their conversion to CSR.
"""

from __future__ import annotations

import numpy as np
import torch
from machine import row_options, save_rows

import facula

ROWS, ENTRIES, COLUMNS = 100_000, 1_000_000, 64


def inputs():
    generator = np.random.default_rng(0)
    indices = generator.integers(0, ROWS, (2, ENTRIES))
    values = generator.standard_normal(ENTRIES).astype(np.float32)
    dense = generator.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    return indices, values, dense


def matrix(m, layout: str, indices, values):
    coo = m.sparse_coo_tensor(m.from_numpy(indices), m.from_numpy(values), (ROWS, ROWS))
    return {"uncoalesced": lambda: coo, "coo": coo.coalesce, "csr": lambda: coo.coalesce().to_sparse_csr()}[layout]()


def cases(m):
    """Return {name: (prepare, run)}: only run(prepare()) is timed from the second call on."""
    indices, values, dense = inputs()
    found = {}
    for layout in ("coo", "csr"):
        sparse = matrix(m, layout, indices, values)
        x = m.from_numpy(dense)
        found[f"{layout} forward"] = (lambda s=sparse, x=x: (s, x), lambda pair: m.sparse.mm(*pair))
        for which in ("dense", "both") if layout == "csr" else ("dense",):  # COO: PyTorch makes a dense gradient of 40 GB

            def prepare(s=sparse, x=x, both=which == "both"):
                return m.sparse.mm(s.detach().requires_grad_(both), x.detach().requires_grad_())

            found[f"{layout} backward {which}"] = (prepare, lambda made: made.backward(m.ones_like(made)))
    found["coalesce"] = (lambda: matrix(m, "uncoalesced", indices, values), lambda t: t.coalesce())
    found["to_sparse_csr"] = (lambda: matrix(m, "coo", indices, values), lambda t: t.to_sparse_csr())
    return found


def main():
    options, clock = row_options(__doc__, rounds=5)
    sides = {side: cases(m) for side, m in (("torch", torch), ("facula", facula))}
    rows = []
    for name in sides["facula"]:
        if options.only not in name:
            continue
        best = dict.fromkeys(sides, float("inf"))
        for _ in range(options.rounds + 1):
            for side, table in sides.items():
                prepare, run = table[name]
                given = prepare()
                start = clock()
                run(given)
                best[side] = min(best[side], clock() - start)
        ratio = best["torch"] / best["facula"]
        print(f"{name:24} {best['facula'] * 1e3:9.1f} ms {ratio:6.2f}", flush=True)
        rows.append({"name": name, "ratio": round(ratio, 3), "seconds": best})
    save_rows(options, rows)


if __name__ == "__main__":
    main()
