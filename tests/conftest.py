"""Makes the tests use the installed package: an unbuilt checkout as current directory would hide it."""

import gc
import os
import signal
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CUDA_HAS_BEGUN = pytest.StashKey()

# A run that a shell started in the background ignores Ctrl-C, and so would the programs that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

start = os.getcwd()
if not list((ROOT / "facula").glob("_C.*")):
    os.chdir(ROOT / "tests")  # child processes look for modules in the current directory first
    sys.path[:] = [entry for entry in sys.path if Path(entry or start).resolve() != ROOT]


def pytest_collection_finish(session):
    """The thousands of collected tests live to the end: the collections that tests ask for need not go through them."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item):
    """What the tests of CUDA with many ops run in other processes begins with the first test of CUDA: most of these leave a processor idle."""
    if item.path.name.startswith("test_cuda") and not item.session.stash.get(CUDA_HAS_BEGUN, False):
        item.session.stash[CUDA_HAS_BEGUN] = True
        for module in dict.fromkeys(other.module for other in item.session.items):
            if hasattr(module, "TOPICS"):
                module.TOPICS.start(item.session, module)


def pytest_sessionfinish(session):
    """What was begun for tests that never came is not waited for."""
    for module in dict.fromkeys(item.module for item in getattr(session, "items", ())):
        if hasattr(module, "TOPICS"):
            module.TOPICS.pool.shutdown(wait=False, cancel_futures=True)


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    """The installed package, for programs in C++."""
    from cpp_programs import installed

    return installed(tmp_path_factory)


@pytest.fixture(autouse=True)
def nobody_watches_afterwards():
    """Fail a test that leaves an observer behind (a profile, a memory history): later tests of the process would fail instead."""
    before = _watched()
    yield
    if not before and _watched():
        sys.modules["facula"].cpu.record_memory_history(None)
        pytest.fail("an observer of this thread outlives the test")


def _watched():
    facula = sys.modules.get("facula")
    if not hasattr(facula, "_C") or not facula._C._watching():
        return False
    facula.empty(0)  # who was unwatched while the last observer went looks once more
    return facula._C._watching()


@pytest.fixture
def nothing_stays_alive():
    """Fails a test after which more tensors (or nodes, or storages) live than before."""
    import facula

    def live():
        gc.collect()
        gc.collect()  # what only a collected cycle kept alive
        return facula.cpu.memory_stats()["allocations.current"]

    before = live()
    yield
    after = live()
    assert after == before, f"{after - before} blocks of memory outlive the test"
