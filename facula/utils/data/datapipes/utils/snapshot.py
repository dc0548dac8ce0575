"""Continue a stream where it stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula.utils.data import graph_settings as _settings

from .. import datapipe as _pipes

if TYPE_CHECKING:
    from typing import Any

    from facula import Generator
    from facula.utils.data.datapipes.datapipe import IterDataPipe


def _simple_graph_snapshot_restoration(datapipe: IterDataPipe[Any], n_iterations: int, rng: Generator | None = None) -> None:
    """Read `n_iterations` samples ahead, so that the next iterator gives what follows them.

    Args:
        datapipe: the stream, made as it was before; its pipes get seeds that `rng` draws.
        n_iterations: samples that were read before.
        rng: a Generator in the state that it had. Default: a new one.

    Errors: RuntimeError for a stream that was restored already, or has fewer samples.
    """
    import facula

    if datapipe._state is _pipes.PipeState.RESTORED:
        raise RuntimeError("restore: the graph has been restored already and was not read since")
    datapipe._start_over()
    _settings.apply_random_seed(datapipe, facula.Generator() if rng is None else rng)
    samples = iter(datapipe)
    for number in range(n_iterations):
        try:
            next(samples)
        except StopIteration as end:
            raise RuntimeError(f"restore: expected {n_iterations} samples to go past in {datapipe}, got {number}") from end
    datapipe._restored, datapipe._state = samples, _pipes.PipeState.RESTORED
