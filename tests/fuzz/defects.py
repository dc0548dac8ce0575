"""A fuzzer whose cases are defects, for the test of the runner."""

from __future__ import annotations

import signal
import sys

from . import runner

CASES = {
    0: "__import__('ctypes').string_at(0)",
    3: "'wrong'",
    4: "while_true()",
    7: "run_without_end()",
    12: "b'x' * (400 << 20) and None",
    15: "__import__('ctypes').string_at(0)",
}


def while_true():
    while True:
        pass


def run_without_end():
    """As a loop in C++ would: deaf to Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while_true()


class Defects:
    def begin(self, number):
        pass

    def case(self, index):
        return CASES.get(index, "None")

    def check(self, text):
        return eval(text)

    def program(self, text):
        return text


if __name__ == "__main__":
    runner.HANG_SECONDS, runner.RESIDENT = 1.0, 300 << 20
    sys.exit(runner.main(lambda options: Defects(), __doc__))
