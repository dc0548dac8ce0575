"""Threads that begin together."""

import threading

THREADS = 4


def together(work, threads=THREADS):
    """The results of work(0), work(1), ... in as many threads, which begin at once."""
    results, errors, begin = [None] * threads, [], threading.Barrier(threads)

    def run(number):
        try:
            begin.wait(60)
            results[number] = work(number)
        except BaseException as error:  # noqa: BLE001 - shown by the test
            errors.append(error)

    workers = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert not any(worker.is_alive() for worker in workers), "a thread did not end"
    if errors:
        raise errors[0]
    return results
