"""Exported programs to damage: writes a zip of archives that tests/cpp/test_program_fuzz.cpp takes.

    python -m tests.fuzz.programs build/programs.zip
    test_program_fuzz 1000000 11 build/programs.zip tests/data/pytorch_programs.zip

Layers, control flow of every kind, also nested and with sizes that vary, writes to buffers and through views, forward with
backward, numbers and lists as arguments; each as it was recorded and after `run_decompositions()`.
"""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path

import facula
import facula.nn.functional as F
from facula import export, nn
from facula._higher_order_ops import cond, scan, while_loop
from facula.export._joint import joint_program

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from export_helpers import Net
from test_control_flow import CASES, VARYING


class Nested(nn.Module):
    """A branch in a loop in a branch, and a loop over rows around a branch."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x):
        def body(i, a):
            return i + 1, cond(a.sum() > 4, lambda a: a - self.lin(a), lambda a: a * 2, (a,))

        def repeated(x):
            return while_loop(lambda i, a: i < 3, body, (facula.zeros((), dtype=facula.int64), x))[1]

        y = cond(x.mean() > 0, repeated, lambda x: x.cos(), (x,))
        return scan(lambda c, row: (c + row, cond(c.sum() > row.sum(), facula.sin, facula.exp, (row,))), x[0], y)


class Writes(nn.Module):
    """A buffer that is counted up, one that is written through views, statistics."""

    def __init__(self):
        super().__init__()
        self.lin, self.norm = nn.Linear(6, 4), nn.BatchNorm1d(4)
        self.register_buffer("calls", facula.zeros((), dtype=facula.int64))
        self.register_buffer("table", facula.zeros(4, 4))

    def forward(self, x):
        self.calls += 1
        y = self.norm(self.lin(x))
        self.table[1:3].t()[0].add_(y.mean())
        self.table.diagonal().mul_(0.5)
        z = y.clone()
        z[:, ::2].relu_()
        z.view(-1)[0] = 3
        return z, self.table * self.calls


class Trained(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.Linear(3, 5)

    def forward(self, x, target):
        y = F.max_pool2d(F.gelu(self.norm(self.conv(x))), 2)
        return F.cross_entropy(self.out(y.mean((2, 3))), target)


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.lstm = nn.Embedding(7, 4), nn.LSTM(4, 3, batch_first=True, bidirectional=True)
        self.norm, self.attention = nn.LayerNorm(6), nn.MultiheadAttention(6, 2, batch_first=True)

    def forward(self, ids):
        y = self.norm(self.lstm(self.words(ids))[0])
        return self.attention(y, y, y)[0], F.scaled_dot_product_attention(y, y, y, is_causal=True)


class Lists(nn.Module):
    """Lists of tensors, with gaps; numbers, names, dtypes; dtypes other than floats."""

    def forward(self, x, n, word="mean"):
        a, b = x.chunk(2, 1)
        values, where = x.topk(2, 1)
        rows = facula.stack([a, b]).reshape(-1, a.shape[1])
        picked = x[:, facula.tensor([0, 2])], facula.einsum("ij,kj->ik", a, b), F.one_hot(where, 6)
        whole = x.to(facula.int16) << n, facula.view_as_real(facula.fft.rfft(x)), *x.sort(dim=1, stable=True)
        padded = F.pad(x, (1, 2), value=0.5), F.interpolate(x[None], scale_factor=1.5, mode="linear")
        return values, rows, *picked, *whole, *padded, facula.bucketize(x, facula.linspace(0, 1, 4)), F.mse_loss(a, b, reduction=word)


def programs():
    """Name to ExportedProgram."""
    facula.manual_seed(0)
    batch = {0: export.Dim("batch", min=2, max=64)}
    made = {name: export.export(make(), first) for name, (make, first, _) in CASES.items()}
    for name, shapes in VARYING.items():
        made[f"{name}.varying"] = export.export(CASES[name][0](), CASES[name][1], dynamic_shapes=shapes)
    made["nested"] = export.export(Nested(), (facula.rand(4, 3),))
    made["net"] = export.export(Net().eval(), (facula.randn(5, 8),), dynamic_shapes={"x": batch})
    made["writes"] = export.export(Writes(), (facula.randn(5, 6),))
    made["layers"] = export.export(Layers().eval(), (facula.randint(0, 7, (3, 5)),))
    made["lists"] = export.export(Lists(), (facula.rand(4, 6), 2))
    trained = export.export(Trained(), (facula.rand(2, 2, 6, 6), facula.tensor([1, 4])))
    decomposed = {f"{name}.core": program.run_decompositions() for name, program in made.items()}
    return made | decomposed | {"trained": trained, "trained.joint": joint_program(trained).run_decompositions()}


def main(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, program in programs().items():
            stream = io.BytesIO()
            export.save(program, stream)
            archive.writestr(f"{name}.pt2", stream.getvalue())
        print(f"{len(archive.namelist())} programs, {sum(i.file_size for i in archive.infolist())} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
