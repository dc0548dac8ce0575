"""The pool of threads under a process: many callers, forks, and the environment that OpenMP's threads read."""

import os
import subprocess
import sys

import pytest
from many_threads import together

import facula


@pytest.fixture
def three_threads():
    before = facula.get_num_threads()
    facula.set_num_threads(3)
    yield
    facula.set_num_threads(before)


def test_more_callers_than_the_pool_helps(three_threads):
    x = facula.arange(1 << 19, dtype=facula.float32)
    expected = (x * 2).sqrt().sum()

    def work(_):
        for _ in range(20):
            assert facula.equal((x * 2).sqrt().sum(), expected)

    together(work, 12)


def test_a_child_of_a_process_with_a_pool_computes(three_threads):
    x = facula.ones(1 << 19)
    assert (x + x).sum() == 1 << 20
    child = os.fork()
    if child == 0:
        os._exit(0 if (x + x).sum() == 1 << 20 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (x + x).sum() == 1 << 20


@pytest.mark.parametrize("given", [{}, {"GOMP_SPINCOUNT": "77"}, {"OMP_WAIT_POLICY": "passive"}], ids=["nothing", "count", "policy"])
def test_importing_leaves_the_environment(given, tmp_path):
    code = "import os; before = dict(os.environ); import facula; assert dict(os.environ) == before"
    own = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    own["PYTHONPATH"] = os.pathsep.join(sys.path)
    run = subprocess.run([sys.executable, "-c", code], env={**own, **given}, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
