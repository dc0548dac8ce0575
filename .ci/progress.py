"""Run a command that builds, with one line that counts in place of its output: python .ci/progress.py pip install -v .

The line is `building 120 of 330`; a terminal has it written over, elsewhere it appears at every tenth part. What the command
said last is shown where it fails, and its exit status is this one's.
"""

from __future__ import annotations

import collections
import re
import subprocess
import sys
import time

STEP = re.compile(r"^\s*\[(\d+)/(\d+)\]")
SAID = re.compile(r"Kernels for: (.*)$")
ENDS = re.compile(r"^\s*Successfully installed (.*)$")


class Line:
    """One line about how far the build is."""

    def __init__(self, out):
        self.out, self.tty, self.began, self.tenth = out, out.isatty(), time.monotonic(), -1

    def show(self, done: int, steps: int) -> None:
        seconds = int(time.monotonic() - self.began)
        text = f"building {done} of {steps}, {seconds // 60}:{seconds % 60:02d}"
        if self.tty:
            self.out.write("\r" + text)
        elif 10 * done // steps > self.tenth:
            self.tenth = 10 * done // steps
            self.out.write(text + "\n")
        self.out.flush()

    def say(self, text: str) -> None:
        self.out.write(("\r\033[K" if self.tty else "") + text + "\n")
        self.out.flush()


def run(command: list[str], out) -> int:
    """Run the command and return its exit status."""
    line, last = Line(out), collections.deque(maxlen=60)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        for text in process.stdout:
            last.append(text)
            if step := STEP.match(text):
                line.show(int(step[1]), int(step[2]))
            elif said := SAID.search(text):
                line.say(f"kernels for {said[1]}")
            elif end := ENDS.match(text):
                line.say(f"installed {end[1]}")
    if process.returncode:
        line.say("".join(last))
    return process.returncode


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], sys.stderr))
