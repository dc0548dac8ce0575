"""Threads that Python leaves behind at its end do not end the process with them."""

import subprocess
import sys

PROGRAM = """
import threading, time, facula
x = facula.ones(3_000_000)
def work():
    while True:
        x.sum()
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
print("ok")
"""


def test_daemon_threads_at_the_end():
    for _ in range(3):
        ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
        assert (ended.returncode, ended.stdout) == (0, "ok\n"), ended
