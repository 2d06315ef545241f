#!/usr/bin/env python3
"""Solvers against GNU Octave's queueing package: the same cases, both in one run.

Needs octave-cli with the queueing package (Debian: octave, octave-queueing) and cargo. Times are the median of several
runs in each program's own clock, so that starting up does not count. Usage: bench/models.py
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent.parent

# Name of our benchmark -> (Octave expression, repetitions).
CASES = {
    "MVA K=10 N=1000": ("qncsmva(1000, 0.001*(1:10), ones(1,10), ones(1,10), 0.1);", 5),
    "sweep N=1..300 m=64 K=4": (
        "for n=1:300 qncsmva(n, [0.001 0.02 0.0003 0.00025], ones(1,4), [-1 64 1 1]); end;", 1),
    "exact 3x50x5": (
        "qncmmva([50 50 50], [.02 .01 .03 .02 .01; .01 .02 .01 .02 .03; .03 .01 .02 .02 .02], ones(3,5));", 1),
}


def octave(expression, repetitions):
    """Median seconds of one evaluation."""
    script = (
        "pkg load queueing; warning('off','all'); t=[];"
        f"for i=1:{repetitions} tic; {expression} t(i)=toc; end; printf('%.9f\\n', median(t));"
    )
    run = subprocess.run(["octave-cli", "--no-gui", "--quiet", "--eval", script], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"octave: {run.stderr.strip()}")
    return float(run.stdout.split()[-1])


def criterion(bench):
    """Median seconds by benchmark, from criterion's own files; those of an older run are left out."""
    begun = time.time()
    subprocess.run(
        ["cargo", "bench", "--quiet", "-p", "krarup-model", "--bench", bench, "--",
         "--warm-up-time", "0.5", "--measurement-time", "2"],
        cwd=HERE, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    metadata = json.loads(subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--no-deps"], cwd=HERE, check=True,
        capture_output=True, text=True).stdout)
    found = {}
    for path in pathlib.Path(metadata["target_directory"], "criterion").glob("**/new/benchmark.json"):
        estimates = path.with_name("estimates.json")
        if estimates.stat().st_mtime >= begun - 1:
            name = json.loads(path.read_text())["title"]
            found[name] = json.loads(estimates.read_text())["median"]["point_estimate"] / 1e9
    return found


def main():
    if not shutil.which("octave-cli"):
        sys.exit("octave-cli is not installed: apt-get install octave octave-queueing")
    measured = criterion("solvers")
    print("| case | krarup | Octave | ratio |\n|---|---:|---:|---:|")
    for name, (expression, repetitions) in CASES.items():
        theirs = octave(expression, repetitions)
        print(f"| {name} | {1e3 * measured[name]:.3f} ms | {1e3 * theirs:.1f} ms | {theirs / measured[name]:.0f} |")
    for name, seconds in measured.items():
        if name not in CASES and re.match("held|Linearizer|sweep", name):
            print(f"| {name} | {1e3 * seconds:.3f} ms | | |")


if __name__ == "__main__":
    main()
