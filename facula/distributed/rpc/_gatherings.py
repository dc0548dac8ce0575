"""Gather values of all workers in the first one. `_agent.py` has the rest of the worker."""

from __future__ import annotations

import functools

from .._errors import DistNetworkError
from . import _wire
from ._kinds import ERROR, GATHER, RESULT


class Gatherings:
    """Gather values of all workers; Agent derives from it."""

    def gather(self, what, value, timeout=0, names=None):
        """Return the values of all workers (or those named), by name."""
        names = sorted(names or self.by_name)
        leader = self.by_name[names[0]].id
        # All workers count alike, so that the n-th gathering of one worker meets the n-th of the others.
        times = self._gathered[(what, *names)] = self._gathered[(what, *names)] + 1
        key = (what, times, *names)
        return self.call(leader, GATHER, value, f"{what} of workers", timeout, {"key": key}).wait()

    def _on_gather(self, source, frame):
        key = frame.about["key"]
        names = key[2:]
        try:
            value = _wire.decode(frame, source, self)
        except Exception as error:
            value = error
        with self._lock:
            entry = self._gathers.setdefault(key, {})
            entry[self._name_of(source)] = (source, frame.call, value)
            complete = len(entry) == len(names)
            if complete:
                del self._gathers[key]
        if complete:
            self._answer_gathered(entry, RESULT, {name: entry[name][2] for name in names})
        else:
            self._look_at_gathers()

    def _name_of(self, rank):
        return self.info.name if rank == self.rank else self.peers[rank].info.name

    def _answer_gathered(self, entry, kind, value):
        """Answer all that have come to a gathering, this worker last.

        It may end its process as soon as it has its answer. Answers that its keepers have not sent by then would be lost, and
        the others would see a worker that is gone.
        """
        calls = {source: call for source, call, _ in entry.values()}
        own = calls.pop(self.rank, None)
        unsent = set(calls)

        def answer(to, call):
            self._keepers[to].put(_wire.encode(kind, call, {}, value, to, self, to == self.rank))

        def sent(to):
            with self._lock:
                unsent.discard(to)
                # The leader answers itself last: it may shut down as soon as it has its result, and the others must
                # have theirs by then.
                is_last = not unsent
            if is_last and own is not None:
                answer(self.rank, own)

        for to, call in calls.items():
            answer(to, call)
            self._keepers[to].put(functools.partial(sent, to))
        if not calls and own is not None:
            answer(self.rank, own)

    def _look_at_gathers(self):
        """End those that wait for a worker that is lost."""
        lost = {peer.info.name: peer for peer in self.peers.values() if peer.lost is not None}
        ended = []
        with self._lock:
            for key in list(self._gathers):
                missing = [n for n in key[2:] if n in lost and n not in self._gathers[key]]
                if missing:
                    ended.append((key[0], lost[missing[0]], self._gathers.pop(key)))
        for what, peer, entry in ended:
            text = f"{what} of workers: {peer} is gone: {peer.lost}"
            self._answer_gathered(entry, ERROR, (DistNetworkError, text))
