"""Makes the tests use the installed package: an unbuilt checkout as current directory would hide it."""

import gc
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from case_names import words

ROOT = Path(__file__).resolve().parent.parent
CUDA_HAS_BEGUN = pytest.StashKey()

# What cannot hold where ops run twice and late (FACULA_DEFER, see docs/internals/sanitizers.md): starts of names of tests.
NOT_DEFERRED = {
    "test_resample.py::test_interpolate_holds_its_output_once": "measures memory",
    "test_region.py::test_what_waits_holds_little_that_the_program_has_let_go": "measures memory",
    "test_storage.py::test_shrinking_gives_memory_back": "measures memory",
    "test_packed_weights.py::test_a_weight_is_kept_when_it_is_seen_again_and_results_are_the_same_to_the_last_bit[linear]": "counts runs",
    "test_packed_weights_memory.py::test_parameters_are_kept_in_other_products_too": "counts runs",
    "test_packed_weights_memory.py::test_training_keeps_nothing": "counts runs",
    "test_packed_weights_memory.py::test_the_bound_holds_and_a_part_of_a_large_model_stays": "counts runs",
    "test_threads.py::test_a_round_of_threads": "threads write what others read, on purpose",
}

# A run that a shell started in the background ignores Ctrl-C, and so would the programs that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--topics", help="of tests of every op, only those of ops of these topics (words with commas)")


def pytest_configure(config):
    """Let the checkout hide no installed package where it is unbuilt; processes that run tests for this one see to that themselves."""
    if "FACULA_TEST_CACHE" not in os.environ:
        os.environ["FACULA_TEST_CACHE"] = tempfile.mkdtemp(prefix="facula-kernels-")
        config.add_cleanup(lambda: shutil.rmtree(os.environ.pop("FACULA_TEST_CACHE"), ignore_errors=True))
    if list((ROOT / "facula").glob("_C.*")) or config.getoption("dist", "no") != "no":
        return
    start = os.getcwd()
    sys.path[:] = [entry for entry in sys.path if Path(entry or start).resolve() != ROOT]
    os.chdir(ROOT / "tests")  # child processes look for modules in the current directory first


def pytest_collection_modifyitems(config, items):
    for item in items if os.environ.get("FACULA_DEFER") else ():
        for name, reason in NOT_DEFERRED.items():
            if item.nodeid.rpartition("/")[2].startswith(name):
                item.add_marker(pytest.mark.skip(reason=reason))
    if config.getoption("topics"):
        chosen = {None, *config.getoption("topics").split(",")}
        others = [item for item in items if _topic(item) not in chosen]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if _topic(item) in chosen]
    if hasattr(config, "workerinput"):
        from parallel_order import in_order

        items[:] = in_order(items)


def _topic(item):
    return getattr(item.callspec.params.get("op"), "topic", None) if hasattr(item, "callspec") else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Beside `-n` nothing has to be said of how tests are shared out: see there."""
    if config.getoption("dist") == "load":
        from parallel_order import FromBothEnds

        return FromBothEnds(config, log)


def pytest_make_parametrize_id(val):
    return words(val)


def pytest_collection_finish(session):
    """The thousands of collected tests live to the end: the collections that tests ask for need not go through them."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item):
    """What the tests of CUDA with many ops run in other processes begins with the first test of CUDA: most of these leave a processor idle."""
    if "PYTEST_XDIST_WORKER" in os.environ:  # another process may run those tests, and this one has a processor of its own
        return
    if item.path.name.startswith("test_cuda") and not item.session.stash.get(CUDA_HAS_BEGUN, False):
        item.session.stash[CUDA_HAS_BEGUN] = True
        for module in dict.fromkeys(other.module for other in item.session.items):
            if hasattr(module, "TOPICS"):
                module.TOPICS.start(item.session, module)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """With FACULA_TEST_BUDGET tests run within a memory budget."""
    if "FACULA_TEST_BUDGET" not in os.environ:
        return (yield)
    from budgeted import within

    with within(os.environ["FACULA_TEST_BUDGET"]):
        return (yield)


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
