"""Ops on rows of all lengths at which their kernels change, against the CPU's results in float64."""

import sys
from pathlib import Path

import cuda_kernels
import pytest

WORKER = str(Path(__file__).resolve().parent / "cuda_rows_worker.py")


@pytest.mark.parametrize("ops", ["soft-max", "norms", "losses"])
def test_rows_have_the_results_of_the_cpu(ops):
    done = cuda_kernels.run([sys.executable, WORKER, ops])
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_blocks_in_any_order_give_the_same():
    done = cuda_kernels.run([sys.executable, WORKER, "norms"], FACULA_EMULATED_MODE="lazy", FACULA_EMULATED_ORDER="random")
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
