"""Copy a batch to page-locked memory, from which a GPU can copy while the host runs on."""

import os
import queue
import select
import threading

import facula
from facula._serialization.rebuild import ExceptionWrapper

from .collate import apply_to_parts


def pin_memory(data, device=None):
    """Return `data` with every tensor in it pinned; objects with a `pin_memory` method are asked for it."""
    if isinstance(data, facula.Tensor) or hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    return apply_to_parts(data, lambda part: pin_memory(part, device))


class PinningThread(threading.Thread):
    """Receive the results of workers and pin them, while the program computes with earlier batches.

    `wait()` gives (worker, answer); the answer is an OSError when the worker's connection has ended.
    """

    def __init__(self, workers, device, keep):
        super().__init__(name="facula_pin", daemon=True)
        self._device, self._keep = device, keep  # classes of answers that are no batches
        self._answers = queue.SimpleQueue()
        self._stop_read, self._stop_write = os.pipe()
        self._workers = {worker.channel.fileno(): worker for worker in workers}
        self._poll = select.poll()
        for descriptor in (self._stop_read, *self._workers):
            self._poll.register(descriptor, select.POLLIN)

    def run(self):
        # The current device belongs to a thread, and a new thread begins with device 0.
        facula.cuda.set_device(self._device)
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._stop_read:
                    return
                self._take(descriptor)

    def _take(self, descriptor):
        worker = self._workers[descriptor]
        try:
            number, data = worker.channel.receive()
        except (EOFError, OSError) as error:
            # poll() would return a closed connection at once, again and again.
            self._poll.unregister(descriptor)
            self._answers.put((worker, error if isinstance(error, OSError) else BrokenPipeError()))
            return
        except Exception:
            self._answers.put((worker, ExceptionWrapper(where="in the DataLoader's thread that pins memory")))
            return
        if not isinstance(data, (ExceptionWrapper, *self._keep)) and not isinstance(number, self._keep):
            try:
                data = pin_memory(data)
            except Exception:
                data = ExceptionWrapper(where="in the DataLoader's thread that pins memory")
        self._answers.put((worker, (number, data)))

    def wait(self, timeout=None):
        """Return the next answer; queue.Empty when none comes in `timeout` seconds."""
        worker, answer = self._answers.get(timeout=timeout)
        if isinstance(answer, ExceptionWrapper):
            answer.reraise()
        return worker, answer

    def stop(self):
        """End the thread; a batch that it pins is finished first."""
        # The thread waits in poll(), which only a readable descriptor ends.
        os.write(self._stop_write, b".")
        if threading.current_thread() is self:  # the iterator died here
            return
        self.join()
        os.close(self._stop_read)
        os.close(self._stop_write)
