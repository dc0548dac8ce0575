"""Implement the operators of torchaudio's libraries by their schemas: an alignment, the loss of transducers and two
recursive filters.

The alignment and the loss are computed in NumPy, over all states of a time step (or all places of an anti-diagonal) at
once. Filters are products: of all blocks of the input with the impulse response, and of the state before each block
with the response to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import facula

from . import provide

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

_BLOCK = 256


def _refuse(name, expected, got):
    raise RuntimeError(f"{name}: {expected}, got {got}")


def _shapes(*tensors):
    return "shapes " + ", ".join(str([*t.shape]) for t in tensors)


def forced_align(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int) -> Any:
    """Return the likeliest path (1, T) of labels and blanks through log_probs (1, T, C) that reads as targets (1, L);
    log_probs."""
    name = "forced_align"
    if log_probs.dim() != 3 or targets.dim() != 2 or log_probs.shape[0] != 1 or targets.shape[0] != 1:
        _refuse(name, "log_probs (1, T, C) and targets (1, L) are expected", _shapes(log_probs, targets))
    if log_probs.dtype not in (facula.float16, facula.float32, facula.float64):
        _refuse(name, "log_probs must be float16, float32 or float64", log_probs.dtype)
    if targets.dtype not in (facula.int32, facula.int64):
        _refuse(name, "targets must be int32 or int64", targets.dtype)
    sizes = log_probs.shape[1], targets.shape[1]
    for what, lengths, size in zip(("input_lengths", "target_lengths"), (input_lengths, target_lengths), sizes):
        if lengths.tolist() != [size]:
            _refuse(name, f"{what} must be the length of the one sequence, [{size}]", lengths.tolist())
    scores, labels = log_probs[0].detach().double().numpy(), targets[0].numpy().astype(np.int64)
    if not 0 <= blank < scores.shape[1] or (labels.size and not 0 <= labels.min() <= labels.max() < scores.shape[1]):
        _refuse(name, f"blank and targets must be below the {scores.shape[1]} classes", f"{blank} and {labels.tolist()}")
    time, repeats = len(scores), int((labels[1:] == labels[:-1]).sum())
    if time == 0 or len(labels) + repeats > time:
        _refuse(name, f"there must be a step for each of {len(labels)} targets and {repeats} repeats", time)
    states = np.full(2 * len(labels) + 1, blank)
    states[1::2] = labels
    path = _best_path(scores, states)
    return facula.from_numpy(path[None]).to(targets.dtype), log_probs


def _best_path(scores, states):
    """Return the labels by time: a state comes from itself, the one before, or past a blank between labels that differ."""
    count, steps = len(states), len(scores)
    skips = np.full(count, -np.inf)
    skips[3::2][states[3::2] != states[1:-2:2]] = 0
    came = np.zeros((steps, count), np.int8)
    last = np.full(count + 2, -np.inf)  # two more before the first state
    last[2:4] = scores[0, states[:2]]
    for begin in range(1, steps, _BLOCK):
        emitted = scores[begin : begin + _BLOCK, states]
        best = np.empty((len(emitted) + 1, count + 2))
        best[0], best[:, :2] = last, -np.inf
        for before, found, more in zip(best, best[1:, 2:], emitted):
            stay, one, two = before[2:], before[1:-1], before[:-2] + skips
            np.maximum(np.maximum(stay, one), two, out=found)
            np.copyto(found, stay, where=one == two)  # as torchaudio has it
            found += more
        stay, one, two = best[:-1, 2:], best[:-1, 1:-1], best[:-1, :-2] + skips
        came[begin : begin + _BLOCK] = np.where((two > one) & (two > stay), 2, (one > stay) & (one > two))
        last = best[-1]
    state = count - 1 if count == 1 or last[-1] > last[-2] else count - 2
    path = np.empty(steps, np.int64)
    for t in range(steps - 1, -1, -1):
        path[t] = states[state]
        state -= came[t, state]
    return path


def _totals(blanks, labels):
    """Return for every place (t, u) of a lattice the logarithm of the sum over all ways to it from (0, 0)."""
    steps, width = blanks.shape
    total = np.full((steps, width), -np.inf)
    total[0, 0] = 0
    for diagonal in range(1, steps + width - 1):
        t = np.arange(max(0, diagonal - width + 1), min(steps, diagonal + 1))
        u = diagonal - t
        waited = np.where(t > 0, total[t - 1, u] + blanks[t - 1, u], -np.inf)
        read = np.where(u > 0, total[t, u - 1] + labels[t, u - 1], -np.inf)
        total[t, u] = np.logaddexp(waited, read)
    return total


def _transducer(logits, targets, blank, fused):
    """Return the cost of one sequence (T, U + 1, D) and its gradient."""
    largest = logits.max(-1, keepdims=True)
    log_probs = logits - largest - np.log(np.exp(logits - largest).sum(-1, keepdims=True)) if fused else logits
    places = np.arange(len(targets))
    blanks, labels = log_probs[:, :, blank], np.zeros(log_probs.shape[:2])
    labels[:, :-1] = log_probs[:, places, targets]
    before = _totals(blanks, labels)
    # backward: the same lattice turned round, whose last blank ends it
    turned = np.full_like(labels, -np.inf)
    turned[:, :-1] = labels[::-1, -2::-1] if len(targets) else turned[:, :-1]
    waits = np.concatenate([blanks[::-1, ::-1][1:], blanks[:1, :1] + np.zeros((1, blanks.shape[1]))])
    after = _totals(waits, turned)[::-1, ::-1] + blanks[-1, -1]
    log_total = after[0, 0]
    gradient = np.zeros_like(log_probs)
    if fused:
        gradient += np.exp(log_probs + (before + after - log_total)[:, :, None])
    onward = np.full_like(after, -np.inf)
    onward[:-1], onward[-1, -1] = after[1:], 0
    gradient[:, :, blank] -= np.exp(before + blanks + onward - log_total)
    gradient[:, places, targets] -= np.exp(before[:, :-1] + labels[:, :-1] + after[:, 1:] - log_total)
    return -log_total, gradient


def _check_transducer(logits, targets, lengths, blank):
    name = "rnnt_loss"
    if logits.dim() != 4 or logits.dtype not in (facula.float16, facula.float32) or 0 in logits.shape:
        got = f"{logits.dtype} of shape {[*logits.shape]}"
        _refuse(name, "logits must be float32 or float16 (batch, time, targets + 1, classes)", got)
    batch, time, width, classes = logits.shape
    if tuple(targets.shape) != (batch, width - 1) or targets.dtype != facula.int32:
        _refuse(name, f"targets must be int32 of shape {[batch, width - 1]}", f"{targets.dtype} of shape {[*targets.shape]}")
    for what, given, least, most in (("logit_lengths", lengths[0], 1, time), ("target_lengths", lengths[1], 0, width - 1)):
        if tuple(given.shape) != (batch,) or given.dtype != facula.int32:
            _refuse(name, f"{what} must be int32 of shape {[batch]}", f"{given.dtype} of shape {[*given.shape]}")
        if not all(least <= length <= most for length in given.tolist()):
            _refuse(name, f"{what} must be between {least} and {most}", given.tolist())
    if not 0 <= blank < classes:
        _refuse(name, f"blank must be one of the {classes} classes", blank)


def rnnt_loss_forward(logits: Tensor, targets: Tensor, logit_lengths: Any, target_lengths: Tensor, blank: int, clamp: Any,
                      fused_log_softmax: Any) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the costs (batch) of a transducer and their gradients for logits (batch, T, U + 1, D)."""
    _check_transducer(logits, targets, (logit_lengths, target_lengths), blank)
    given, labels = logits.detach().double().numpy(), targets.numpy().astype(np.int64)
    costs, gradients = np.zeros(len(given)), np.zeros(given.shape)
    for n, (time, count) in enumerate(zip(logit_lengths.tolist(), target_lengths.tolist())):
        wanted = labels[n, :count]
        if count and not 0 <= wanted.min() <= wanted.max() < given.shape[-1]:
            _refuse("rnnt_loss", f"targets must be below the {given.shape[-1]} classes", wanted.tolist())
        inside = slice(time), slice(count + 1)
        costs[n], gradients[n][inside] = _transducer(given[n][inside], wanted, blank, fused_log_softmax)
    if clamp > 0:
        gradients = gradients.clip(-clamp, clamp)
    return facula.from_numpy(costs).to(logits.dtype), facula.from_numpy(gradients).to(logits.dtype)


def _responses(coefficients, length):
    """Return the answers of y[n] = x[n] - sum of a[k] y[n - k] (channels, order): to an impulse, (channels, length), and to the
    outputs before the block, (channels, length, order), the last of them first."""
    channels, order = coefficients.shape
    state = np.concatenate([np.zeros((channels, order, 1)), np.broadcast_to(np.eye(order), (channels, order, order))], -1)
    answers, known = np.zeros((channels, length, order + 1)), min(length, max(order, 1))
    for n in range(known):
        new = -(coefficients[:, :, None] * state).sum(1)
        new[:, 0] += n == 0
        answers[:, n] = new
        state = np.concatenate([new[:, None], state[:, :-1]], 1)
    while known < length:  # what is known is what follows the outputs of now, too
        count, state = min(known, length - known), answers[:, known - order : known][:, ::-1]
        answers[:, known : known + count] = answers[:, :count, 1:] @ state
        known += count
    return answers[:, :, 0], answers[:, :, 1:]


def _filtered(given, past, coefficients):
    """Return the outputs for inputs (channels, batch, time) after those of `past` (channels, batch, order), the last of them
    first."""
    channels, batch, time = given.shape
    order = past.shape[2]
    length = max(min(_BLOCK, time), order, 1)
    blocks = -(-time // length)
    pulse, answers = _responses(coefficients, length)
    shift = np.subtract.outer(np.arange(length), np.arange(length))
    spread = np.where(shift >= 0, pulse[:, shift.clip(0)], 0.0)  # (channels, length, length)
    padded = np.zeros((channels, batch, blocks * length))
    padded[:, :, :time] = given
    made = (padded.reshape(channels, -1, length) @ spread.swapaxes(1, 2)).reshape(channels, batch, blocks, length)
    if order:
        earlier, step = np.empty((channels, batch, blocks, order)), answers[:, length - order :][:, ::-1].swapaxes(1, 2)
        for block in range(blocks):
            earlier[:, :, block] = past
            past = past @ step + made[:, :, block, length - order :][:, :, ::-1]
        made += (earlier.reshape(channels, -1, order) @ answers.swapaxes(1, 2)).reshape(made.shape)
    return made.reshape(channels, batch, -1)[:, :, :time]


def lfilter_core_loop(input_signal_windows: Any, a_coeff_flipped: Any, padded_output_waveform: Any) -> Any:
    """Write the recursive part of a filter behind the first `order` samples of the padded output (batch, channels, time)."""
    name, x, y = "lfilter", input_signal_windows, padded_output_waveform
    if x.dtype not in (facula.float32, facula.float64) or {a_coeff_flipped.dtype, y.dtype} != {x.dtype}:
        _refuse(name, "tensors of float32 or float64 are expected", f"{x.dtype}, {a_coeff_flipped.dtype} and {y.dtype}")
    order = a_coeff_flipped.shape[-1] - 1
    if x.dim() != 3 or a_coeff_flipped.dim() != 2 or order < 0 or a_coeff_flipped.shape[0] != x.shape[1]:
        _refuse(name, "an input (N, C, T) and coefficients (C, order + 1) are expected", _shapes(x, a_coeff_flipped))
    if tuple(y.shape) != (*x.shape[:2], x.shape[2] + order):
        _refuse(name, f"the padded output must have shape {[*x.shape[:2], x.shape[2] + order]}", [*y.shape])
    coefficients = a_coeff_flipped.detach().double().numpy()[:, -2::-1] if order else np.zeros((x.shape[1], 0))
    given, past = x.detach().double().numpy().swapaxes(0, 1), y[:, :, :order].detach().double().numpy().swapaxes(0, 1)
    lost = np.logical_or.accumulate(~np.isfinite(given), -1)
    with np.errstate(all="ignore"):
        made = _filtered(np.where(lost, 0.0, given), past[:, :, ::-1], coefficients)
    made = np.where(lost, np.nan, made).swapaxes(0, 1)
    with facula.no_grad():
        y[:, :, order:] = facula.from_numpy(np.ascontiguousarray(made)).to(y.dtype)
    return y


def overdrive_core_loop(waveform: Any, temp: Any, last_in: Any, last_out: Any, output_waveform: Any) -> tuple[Any, Any, Any]:
    """Write half the waveform (channels, time) plus 0.75 of temp without its slow part, and the last input and output."""
    name = "overdrive"
    shapes = [tuple(t.shape) for t in (waveform, temp, output_waveform)]
    if waveform.dim() != 2 or len(set(shapes)) != 1 or {tuple(last_in.shape), tuple(last_out.shape)} != {shapes[0][:1]}:
        got = _shapes(waveform, temp, last_in, last_out, output_waveform)
        _refuse(name, "waves (channels, time) and states (channels) are expected", got)
    if waveform.dtype not in (facula.float32, facula.float64):
        _refuse(name, "waves must be float32 or float64", waveform.dtype)
    if shapes[0][1] == 0:
        return last_in, last_out, output_waveform
    steps = facula.diff(temp, dim=1, prepend=last_in[:, None])[None]
    filtered = facula.cat([last_out[None, :, None], facula.zeros_like(steps)], 2)
    coefficients = facula.tensor([[-0.995, 1.0]], dtype=waveform.dtype).expand(shapes[0][0], 2)
    lfilter_core_loop(steps, coefficients, filtered)
    with facula.no_grad():
        output_waveform.copy_(waveform * 0.5 + filtered[0, :, 1:] * 0.75)
        last_in.copy_(temp[:, -1])
        last_out.copy_(filtered[0, :, -1])
    return last_in, last_out, output_waveform


_ALIGNED = "Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank"
_TRANSDUCED = "Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths, int blank"
_FILTERED = "Tensor input_signal_windows, Tensor a_coeff_flipped, Tensor(a!) padded_output_waveform"
_DRIVEN = "Tensor waveform, Tensor temp, Tensor(a!) last_in, Tensor(b!) last_out, Tensor(c!) output_waveform"
for _schema, _function in {
    "_torchaudio::cuda_version() -> int?": lambda: None,
    "_torchaudio::is_align_available() -> bool": lambda: True,
    f"torchaudio::forced_align({_ALIGNED}) -> (Tensor, Tensor)": forced_align,
    f"torchaudio::rnnt_loss_forward({_TRANSDUCED}, float clamp, bool fused_log_softmax) -> (Tensor, Tensor)": rnnt_loss_forward,
    f"torchaudio::_lfilter_core_loop({_FILTERED}) -> Tensor(a!)": lfilter_core_loop,
    f"torchaudio::_overdrive_core_loop({_DRIVEN}) -> (Tensor(a!), Tensor(b!), Tensor(c!))": overdrive_core_loop,
}.items():
    provide(_schema, _function)
