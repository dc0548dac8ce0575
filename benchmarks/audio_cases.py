"""Define the cases of torchaudio for benchmarks/vision.py: functions that call its compiled code, and some that do not."""

import numpy as np


def load():
    """Load torchaudio.functional."""
    import torch

    torch.version.cuda = None  # torchaudio refuses a PyTorch compiled for another CUDA, which nothing here uses
    import torchaudio.functional

    return torchaudio.functional


def wave(*shape, seed=0):
    return (np.random.default_rng(seed).normal(size=shape) * 0.1).astype("float32")


def log_probs(*shape):
    scores = np.random.default_rng(3).normal(size=shape).astype("float32")
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True))


def labels(*shape, classes):
    return np.random.default_rng(4).integers(1, classes, shape).astype("int32")


def lengths(*values):
    return np.array(values, "int32")


POLES = np.array([1.0, -0.9, 0.3, -0.1], "float32")
ZEROS = np.array([0.4, 0.2, 0.1, 0.05], "float32")
BANK = [np.stack([values] * 4) * np.float32(0.9) ** np.arange(4, dtype="float32")[:, None] for values in (POLES, ZEROS)]
BANK[0][:, 0] = 1
WINDOW = np.hanning(401)[:-1].astype("float32")

#: name -> (arrays, what is differentiated, function of torchaudio.functional and the tensors)
CASES = {
    "lfilter, 2 x 4000": ([wave(2, 4000), POLES, ZEROS], 0, lambda f, x, a, b: f.lfilter(x, a, b)),
    "lfilter, 2 x 400000": ([wave(2, 400000), POLES, ZEROS], 0, lambda f, x, a, b: f.lfilter(x, a, b)),
    "lfilter and its derivatives, 2 x 4000": ([wave(2, 4000), POLES, ZEROS], 3, lambda f, *t: f.lfilter(*t, clamp=False)),
    "four filters, 4 x 16000": ([wave(4, 16000), *BANK], 0, lambda f, x, a, b: f.lfilter(x, a, b, batching=True)),
    "filtfilt, 2 x 16000": ([wave(2, 16000), POLES, ZEROS], 0, lambda f, x, a, b: f.filtfilt(x, a, b, clamp=False)),
    "equalizer_biquad, 2 x 16000": ([wave(2, 16000)], 0, lambda f, x: f.equalizer_biquad(x, 16000, 1000.0, 3.0)),
    "overdrive, 2 x 16000": ([wave(2, 16000)], 0, lambda f, x: f.overdrive(x, 20, 20)),
    "flanger, 2 x 2000": ([wave(1, 2, 2000)], 0, lambda f, x: f.flanger(x, 8000)),
    "forced_align, 500 steps, 60 labels": (
        [log_probs(1, 500, 40), labels(1, 60, classes=40)], 0, lambda f, p, t: f.forced_align(p, t)
    ),
    "rnnt_loss, 4 x 60 x 21 x 64": (
        [log_probs(4, 60, 21, 64), labels(4, 20, classes=63), lengths(60, 50, 60, 1), lengths(20, 20, 3, 0)],
        1,
        lambda f, x, *rest: f.rnnt_loss(x, *rest, reduction="none"),
    ),
    "spectrogram, 2 x 16000": (
        [wave(2, 16000), WINDOW], 1, lambda f, x, w: f.spectrogram(x, 0, w, 400, 160, 400, 2.0, False)
    ),
    "resample, 2 x 16000": ([wave(2, 16000)], 1, lambda f, x: f.resample(x, 16000, 11025)),
}  # fmt: skip
