#!/usr/bin/env python3
"""How long `krarup report` takes over a trial of a million requests, and how large its page is.

Runs an experiment of one cell until a trial has answered at least so many requests (through the proxy, with every request stamped), and then times the
report made anew from the directory: wall and processor time of the whole process (wait4), the median of several rounds.

    cargo build --release
    bench/report.py [--krarup PATH] [--requests 1000000] [--rounds 5]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

SPEC = """
title = "a million requests"
retries = 0
repetitions = {{ min = 1 }}
phases = {{ measure = "{seconds}s" }}
data = ["--keys", "1000", "--data-size", "64"]
population = "connections"
[[factor]]
name = "connections"
levels = [32]
[populate]
[stations.servers]
program = "cache"
count = 1
[stations.middleware]
program = "proxy"
[stations.clients]
program = "load"
flags = ["--connections", "$connections", "--pipeline", "32", "--ratio", "1:10"]
"""


def timed(words):
    begun = time.monotonic()
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, words))} ended with {process.returncode}")
    return time.monotonic() - begun, usage.ru_utime + usage.ru_stime


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--krarup", default=ROOT / "target/release/krarup")
    arguments.add_argument("--requests", type=int, default=1_000_000)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spec, out, seconds, answered = pathlib.Path(folder, "spec.toml"), pathlib.Path(folder, "out"), 10, 0
        while answered < arguments.requests:
            spec.write_text(SPEC.format(seconds=seconds))
            timed([arguments.krarup, "run", spec, "--out", out])
            answered = json.loads((out / "results.json").read_text())["cells"][0]["completed"]
            seconds = int(seconds * 1.2 * arguments.requests / max(answered, 1)) + 1
        rounds = [timed([arguments.krarup, "report", out]) for _ in range(arguments.rounds)]
        wall, cpu = (statistics.median(part) for part in zip(*rounds))
        size = (out / "report.html").stat().st_size
        print(f"{answered:,} requests: report in {wall:.2f} s ({min(r[0] for r in rounds):.2f}-{max(r[0] for r in rounds):.2f}), "
              f"{cpu:.2f} s of processor time; page of {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
