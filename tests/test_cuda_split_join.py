"""Joining on a CUDA device, and losses of more positions than one block adds up: beyond what the samples of ops cover."""

import subprocess
import sys

from cuda_environment import environment

PROGRAM = """
import numpy as np, facula
rng = np.random.default_rng(0)
def check(parts, dim):
    made = facula.cat([facula.tensor(p).to('cuda') for p in parts], dim).cpu().numpy()
    assert np.array_equal(made, np.concatenate(parts, dim)), (dim, [p.shape for p in parts])
for dtype in ('int8', 'int16', 'float32', 'complex128'):
    some = lambda *shape: (rng.random(shape) * 100).astype(dtype)
    check([some(3, 5), some(3, 1), some(3, 0), some(3, 8)], 1)
    check([some(2, 4, 6), some(1, 4, 6), some(70, 4, 6)], 0)
    check([some(4, n % 7, 3) for n in range(150)], 1)  # more than one launch takes
x = facula.arange(24.0, device='cuda')
parts = [x[1:4], x[5:9], x[2:23:3]]  # not aligned, and not contiguous
assert facula.cat(parts).tolist() == [1, 2, 3, 5, 6, 7, 8, 2, 5, 8, 11, 14, 17, 20]
assert facula.cat([x[:2], x[:3].long()]).tolist() == [0, 1, 0, 1, 2]
assert facula.stack([x[1:4], x[5:8]], 1).tolist() == [[1, 5], [2, 6], [3, 7]]
turns = facula.complex(x[:2], x[1:3])
assert facula.cat([turns, turns.conj()]).tolist() == [1j, 1 + 2j, -1j, 1 - 2j]
for positions in (70000, 3000):
    scores, classes = rng.normal(size=(positions, 3)), rng.integers(0, 3, positions)
    classes[::7] = -100
    losses = np.log(np.exp(scores).sum(1)) - scores[np.arange(positions), np.maximum(classes, 0)]
    on_device = facula.tensor(scores).to('cuda'), facula.tensor(classes).to('cuda')
    for reduction, expected in (('mean', losses[classes >= 0].mean()), ('sum', losses[classes >= 0].sum())):
        loss = facula.nn.functional.cross_entropy(*on_device, reduction=reduction)
        assert abs(loss.item() / expected - 1) < 1e-12, (positions, reduction)
none = facula.nn.functional.cross_entropy(facula.zeros(0, 3, device='cuda'), facula.zeros(0, dtype=facula.int64, device='cuda'))
assert none.isnan().item()
"""


def test_parts_are_joined_and_losses_added_up():
    run = subprocess.run([sys.executable, "-c", PROGRAM], env=environment(), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
