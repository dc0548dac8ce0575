"""What torchaudio's libraries register, against plain Python."""

import itertools
import math

import numpy as np
import pytest

import facula
from facula import library

for file in ("_torchaudio.abi3.so", "libtorchaudio.abi3.so"):
    facula.ops.load_library(f"/anywhere/torchaudio/lib/{file}")
audio = facula.ops.torchaudio
rng = np.random.default_rng(3)


def test_it_is_there():
    assert facula.ops._torchaudio.cuda_version() is None and facula.ops._torchaudio.is_align_available()
    assert library.find("torchaudio", "forced_align")._text.startswith("torchaudio::forced_align(Tensor log_probs,")


def reads_as(path, blank):
    return [label for label, _ in itertools.groupby(path) if label != blank]


@pytest.mark.parametrize("targets, time", [([1, 2], 4), ([1, 1], 5), ([2], 1), ([3, 1, 2], 5), ([1, 1, 1], 5)])
def test_forced_align(targets, time):
    scores = np.log(rng.dirichlet(np.ones(4), time))
    best = max(
        (p for p in itertools.product(range(4), repeat=time) if reads_as(p, 0) == targets),
        key=lambda p: sum(scores[t, label] for t, label in enumerate(p)),
    )
    given = facula.from_numpy(scores)[None], facula.tensor([targets], dtype=facula.int32)
    path, same = audio.forced_align(*given, facula.tensor([time]), facula.tensor([len(targets)]), 0)
    assert path.dtype == facula.int32 and path.tolist() == [list(best)] and facula.equal(same, given[0])


def plain_transducer(log_probs, targets, blank):
    """The cost, over all ways through the lattice."""
    time, width = log_probs.shape[:2]
    total = 0.0
    for places in itertools.combinations_with_replacement(range(time), width - 1):  # when each target is read
        ways, u = 0.0, 0
        for t in range(time):
            while u < width - 1 and places[u] == t:
                ways += log_probs[t, u, targets[u]]
                u += 1
            ways += log_probs[t, u, blank]
        total += math.exp(ways)
    return -math.log(total)


def normalized(logits):
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


@pytest.mark.parametrize("fused", [True, False])
def test_rnnt_loss(fused):
    logits = rng.normal(size=(2, 4, 3, 5)).astype("float32")
    if not fused:
        logits = normalized(logits)
    targets, lengths = np.array([[1, 2], [3, 0]], "int32"), ([4, 3], [2, 1])
    given = [facula.from_numpy(a) for a in (logits, targets, *(np.array(n, "int32") for n in lengths))]
    costs, gradients = audio.rnnt_loss_forward(*given, 4, -1.0, fused)

    def cost(n, values):
        part = values[: lengths[0][n], : lengths[1][n] + 1]
        return plain_transducer(normalized(part) if fused else part, targets[n], 4)

    for n in range(2):
        assert costs[n].item() == pytest.approx(cost(n, logits[n]), abs=1e-5)
        for place in [(0, 0, 4), (1, 1, 4), (2, 0, 1), (2, 1, 2), (1, 0, targets[n, 0]), (3, 2, 4)]:
            moved = [logits[n].astype("float64") for _ in range(2)]
            moved[0][place] += 1e-4
            moved[1][place] -= 1e-4
            slope = (cost(n, moved[0]) - cost(n, moved[1])) / 2e-4
            assert gradients[n][place].item() == pytest.approx(slope, abs=1e-4)
    clamped = audio.rnnt_loss_forward(*given, 4, 0.01, fused)[1]
    assert facula.equal(clamped, gradients.clamp(-0.01, 0.01))


@pytest.mark.parametrize("time", [0, 1, 2, 5, 300, 700])
@pytest.mark.parametrize("order", [0, 1, 3, 5])
def test_lfilter(time, order):
    x, a = rng.normal(size=(2, 3, time)), np.concatenate([rng.uniform(-0.3, 0.3, (3, order)), np.ones((3, 1))], 1)
    y = np.zeros((2, 3, time + order))
    y[:, :, :order] = rng.normal(size=(2, 3, order))
    expected = y.copy()
    for t in range(time):
        expected[:, :, t + order] = x[:, :, t] - (a[:, :order] * expected[:, :, t : t + order]).sum(-1)
    made = facula.from_numpy(y)
    assert audio._lfilter_core_loop(facula.from_numpy(x), facula.from_numpy(a), made) is made
    np.testing.assert_allclose(made.numpy(), expected, atol=1e-10)


def test_lfilter_of_what_is_not_finite():
    x, made = facula.ones(2, 1, 600), facula.zeros(2, 1, 601)
    x[0, 0, 400] = math.inf
    audio._lfilter_core_loop(x, facula.tensor([[-0.5, 1.0]]), made)
    assert made[:, 0, 1:401].isfinite().all() and made[0, 0, 401:].isnan().all() and made[1].isfinite().all()


def test_overdrive():
    wave, temp = rng.normal(size=(2, 2, 200))
    state, out = [facula.zeros(2, dtype=facula.float64) for _ in range(2)], facula.zeros(2, 200, dtype=facula.float64)
    audio._overdrive_core_loop(facula.from_numpy(wave), facula.from_numpy(temp), *state, out)
    last_in, last_out = np.zeros(2), np.zeros(2)
    for t in range(200):
        last_out = temp[:, t] - last_in + 0.995 * last_out
        last_in = temp[:, t]
        np.testing.assert_allclose(out[:, t].numpy(), wave[:, t] * 0.5 + last_out * 0.75, atol=1e-10)
    np.testing.assert_allclose(state[0].numpy(), last_in)
    np.testing.assert_allclose(state[1].numpy(), last_out, atol=1e-10)


def small(*shape):
    return facula.zeros(shape, dtype=facula.int32)


FLOATS = facula.zeros(1, 3, 4)
HOSTILE = {
    "several sequences": ("forced_align", lambda: audio.forced_align(facula.zeros(2, 3, 4), small(2, 1), small(2), small(2), 0)),
    "too many targets": ("forced_align", lambda: audio.forced_align(FLOATS, small(1, 4) + 1, small(1) + 3, small(1) + 4, 0)),
    "no such class": ("forced_align", lambda: audio.forced_align(FLOATS, small(1, 1) + 9, small(1) + 3, small(1) + 1, 0)),
    "no such blank": ("forced_align", lambda: audio.forced_align(FLOATS, small(1, 1), small(1) + 3, small(1) + 1, -1)),
    "another length": ("forced_align", lambda: audio.forced_align(FLOATS, small(1, 1), small(1) + 9, small(1) + 1, 0)),
    "no time": ("forced_align", lambda: audio.forced_align(FLOATS[:, :0], small(1, 0), small(1), small(1), 0)),
    "three dimensions": ("rnnt_loss", lambda: audio.rnnt_loss_forward(FLOATS, small(1, 1), small(1), small(1), 0, -1.0, True)),
    "long targets": (
        "rnnt_loss",
        lambda: audio.rnnt_loss_forward(facula.zeros(1, 2, 2, 3), small(1, 1), small(1) + 2, small(1) + 2, 0, -1.0, True),
    ),
    "a target that is no class": (
        "rnnt_loss",
        lambda: audio.rnnt_loss_forward(facula.zeros(1, 2, 2, 3), small(1, 1) - 1, small(1) + 2, small(1) + 1, 0, -1.0, True),
    ),
    "coefficients for other channels": ("lfilter", lambda: audio._lfilter_core_loop(FLOATS, facula.ones(2, 3), facula.zeros(1, 3, 6))),
    "an output that is too short": ("lfilter", lambda: audio._lfilter_core_loop(FLOATS, facula.ones(3, 3), facula.zeros(1, 3, 5))),
    "waves of two lengths": (
        "overdrive",
        lambda: audio._overdrive_core_loop(FLOATS[0], FLOATS[0, :, :2], FLOATS[0, :, 0], FLOATS[0, :, 0], FLOATS[0]),
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_bad_input(case):
    name, call = HOSTILE[case]
    with pytest.raises(RuntimeError, match=f"^{name}: .*, got "):
        call()
