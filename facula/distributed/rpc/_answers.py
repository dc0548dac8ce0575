"""Answer the calls of other workers: run each kind of call and send its result. `_agent.py` has the rest of the worker."""

from __future__ import annotations

from facula.futures import Future

from . import _wire
from ._kinds import ERROR, RESULT
from ._workers import failure_text


class Answers:
    """Answer calls of other workers; Agent derives from it."""

    def answer(self, source, call, value, about=None):
        """Send the answer to a call; an error when it cannot be pickled."""
        try:
            frame = _wire.encode(RESULT, call, dict(about or {}), value, source, self, source == self.rank)
        except Exception as error:
            self.answer_error(source, call, error)
            return
        self._answered()
        self._send(source, frame)

    def answer_error(self, source, call, error):
        text = getattr(error, "_rpc_text", None) or failure_text(self.info, error)
        kind = type(error) if isinstance(error, Exception) else None
        try:
            frame = _wire.encode(ERROR, call, {}, (kind, text), source, self, source == self.rank)
        except Exception:  # a class that only this process knows
            frame = _wire.encode(ERROR, call, {}, (None, text), source, self, source == self.rank)
        self._answered()
        self._send(source, frame)

    # This runs before the answer is sent: otherwise the caller could shut down while this call still counts as active.
    def _answered(self):
        with self._calm:
            self._active -= 1
            self._calm.notify_all()

    def run(self, function, arguments, options, about, done, failed):
        """Call the function in the autograd context of the caller; `done` or `failed` gets what becomes of it."""
        try:
            with self._autograd.entered(about):
                result = function(*arguments, **options)
            if getattr(function, "_rpc_gives_future", False):
                if not isinstance(result, Future):
                    raise RuntimeError(f"async_execution: the function must return a Future, got {type(result).__name__}")
                result.add_done_callback(lambda future: self._finished(future, about, done, failed))
                return
        except BaseException as error:
            failed(error)
            return
        with self._autograd.entered(about):
            done(result)

    def _finished(self, future, about, done, failed):
        try:
            result = future.value()
        except Exception as error:
            failed(error)
            return
        with self._autograd.entered(about):
            done(result)

    def _answering(self, source, frame, find):
        """Work that runs a call and answers it; `find` gives the function, its arguments and its options."""

        def work():
            try:
                function, arguments, options = find()
            except Exception as error:
                self.answer_error(source, frame.call, error)
                return
            done = lambda value: self.answer(source, frame.call, value)  # noqa: E731
            failed = lambda error: self.answer_error(source, frame.call, error)  # noqa: E731
            self.run(function, arguments, options, frame.about, done, failed)

        return work

    def _on_call(self, source, frame):
        return True, self._answering(source, frame, lambda: _wire.decode(frame, source, self))

    def _on_remote(self, source, frame):
        owned = self.references.own(frame.about["rref"], frame.about["fork"], source)
        # The caller learns at once that its fork is known; the value comes later, by a fetch.
        self._keepers[source].put(_wire.encode(RESULT, frame.call, {}, None, source, self, source == self.rank))

        def work():
            try:
                function, arguments, options = _wire.decode(frame, source, self)
            except Exception as error:
                fail(error)
                return
            self.run(function, arguments, options, frame.about, give, fail)

        def give(value):
            owned.future.set_result(value)
            self._answered()

        def fail(error):
            text = failure_text(self.info, error)
            if not isinstance(error, Exception):
                error = RuntimeError(text)
            error._rpc_text = text
            owned.future.set_exception(error)
            self._answered()

        return True, work

    def _on_fetch(self, source, frame):
        owned = self.references.find(frame.about["rref"])

        def work(future=owned.future):
            try:
                value = future.value()
            except Exception as error:
                self.answer_error(source, frame.call, error)
                return
            with self._autograd.entered(frame.about):
                self.answer(source, frame.call, value)

        return self._when(owned, False, work)

    def _on_invoke(self, source, frame):
        owned = self.references.find(frame.about["rref"])

        def find():
            name, arguments, options = _wire.decode(frame, source, self)
            return getattr(owned.future.value(), name), arguments, options

        return self._when(owned, True, self._answering(source, frame, find))

    def _when(self, owned, limited, work):
        """Work that needs the value of an RRef, which may not be there yet."""
        if owned.future.done():
            return limited, work
        # In a thread of its own: the callback runs in the thread that sets the value, which must not wait for a slot.
        owned.future.add_done_callback(lambda _: self._threads.start(self._start, limited, work))
        return None

    def _on_gradients(self, source, frame):
        def work():
            try:
                value = _wire.decode(frame, source, self)
                future = self._autograd.gradients_came(self, source, *value)
                future.add_done_callback(answer)
            except Exception as error:
                self.answer_error(source, frame.call, error)

        def answer(future):
            try:
                value = future.value()
            except Exception as error:
                self.answer_error(source, frame.call, error)
            else:
                self.answer(source, frame.call, value)

        return True, work
