"""In which order stages run the pieces of a batch forwards and backwards."""

from __future__ import annotations

import facula

from .microbatch import merge_chunks, split_args_kwargs_into_chunks
from .stage import PipelineStage

__all__ = ["Schedule1F1B", "ScheduleGPipe"]


class _Schedule:
    """A schedule of one stage in each process.

    Args:
        stage: the stage of this process.
        n_microbatches: pieces of a batch.
        loss_fn: `loss_fn(output, target)`, in the last stage. None: nothing runs backwards.
        args_chunk_spec, kwargs_chunk_spec: along which dimensions inputs are cut. Default: 0.
        output_merge_spec: along which dimension outputs are put together. Default: 0.
        scale_grads: whether gradients are those of the mean of the pieces' losses.
    """

    def __init__(
        self, stage: PipelineStage, n_microbatches: int, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None,
        output_merge_spec=None, scale_grads: bool = True,
    ) -> None:  # fmt: skip
        if n_microbatches < 1:
            raise ValueError(f"{type(self).__name__}: n_microbatches must be positive, got {n_microbatches}")
        self._stage, self._count, self._loss_fn = stage, n_microbatches, loss_fn
        self._args_spec, self._kwargs_spec, self._merge_spec = args_chunk_spec, kwargs_chunk_spec, output_merge_spec
        self.scale_grads = scale_grads

    def _warmup(self) -> int:
        """How many pieces run forwards before the first one runs backwards."""
        raise NotImplementedError(f"{type(self).__name__}._warmup: derive from it, got {self._count} pieces")

    def step(self, *args, target=None, losses: list | None = None, return_outputs: bool = True, loss_kwargs=None, **kwargs):
        """Runs one batch forwards and backwards.

        Args:
            args: the batch, in the first stage.
            target: what the loss compares with, in the last stage.
            losses: a list that gets the loss of every piece, in the last stage.
            return_outputs: whether the last stage gives its outputs.
            loss_kwargs, kwargs: further arguments of the loss, and of every stage's part of the model.
        Returns:
            the outputs of the batch in the last stage, else None.
        """
        return self._run(args, kwargs, target, losses, return_outputs, loss_kwargs or {}, self._loss_fn is not None)

    def eval(self, *args, target=None, losses: list | None = None, **kwargs):
        """Runs one batch forwards, as `step` does."""
        with facula.no_grad():
            return self._run(args, kwargs, target, losses, True, {}, False)

    def _run(self, args, kwargs, target, losses, return_outputs, loss_kwargs, backwards):
        stage = self._stage
        pieces, named = split_args_kwargs_into_chunks(args, kwargs, self._count, self._args_spec, self._kwargs_spec)
        wanted = self._targets(target, backwards)
        waiting, outputs = [], []

        def forward(i):
            inputs, output = stage.forward(pieces[i], named[i])
            loss = None
            if stage.is_last:
                outputs.append(output.detach() if isinstance(output, facula.Tensor) else output)
                if self._loss_fn is not None and wanted is not None:
                    loss = self._loss_fn(output, wanted[i], **loss_kwargs)
                    if losses is not None:
                        losses.append(loss.detach())
            waiting.append((inputs, output, loss))

        def backward():
            inputs, output, loss = waiting.pop(0)
            stage.backward(inputs, output, loss / self._count if loss is not None and self.scale_grads else loss)

        first = min(self._warmup(), self._count) if backwards else self._count
        for i in range(first):
            forward(i)
        if backwards:
            for i in range(first, self._count):
                backward()
                forward(i)
            while waiting:
                backward()
        stage.finish()
        return merge_chunks(outputs, self._merge_spec) if stage.is_last and return_outputs else None

    def _targets(self, target, backwards: bool):
        if not self._stage.is_last or target is None:
            if self._stage.is_last and backwards:
                raise ValueError(f"{type(self).__name__}.step: the last stage needs a target for its loss, got None")
            return None
        return [args[0] for args in split_args_kwargs_into_chunks((target,), {}, self._count)[0]]


class ScheduleGPipe(_Schedule):
    """All pieces forwards, then all backwards."""

    def _warmup(self) -> int:
        return self._count


class Schedule1F1B(_Schedule):
    """One backwards for every one forwards, as soon as the first piece has come through: no stage keeps more pieces than there
    are stages behind it.
    """

    def _warmup(self) -> int:
        return self._stage.num_stages - self._stage.stage_index
