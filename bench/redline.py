#!/usr/bin/env python3
"""What krarup redline proves of a server whose limit no usual traffic meets, beside what is measured afterwards.

Three servers hold the same keys; each works 1 ms on a request and may work for a share of each 100 ms only, as under a processor quota. The usual
traffic stays below that, so passive headroom cannot see it. Then one of them is pushed, headroom is asked again, and the truth is measured: clients
that ask again at once, and the response time at the rate that was proven.

    cargo build --release
    bench/redline.py [--share 0.5] [--rate 450] [--target 40] [--most-time 180] [--binary target/release/krarup]
"""

import argparse
import json
import subprocess
import sys
import threading
import time

from headroom import ROOT, Program, Scenario, Server, load, p99

PERIOD = 0.1
# Before the redline, so that headroom has something to say of; and after it, until the shares of the redline are forgotten.
BEFORE, AFTER = 45, 75


class Quota:
    """Service of 1 ms; of each period the server works for a share, and stands still for the rest."""

    def __init__(self, share):
        self.budget, self.period, self.used = share * PERIOD, 0, 0.0

    def __call__(self, size):
        now = time.monotonic()
        period = int(now / PERIOD)
        if period != self.period:
            self.period, self.used = period, 0.0
        wait = 0.0
        if self.used + 1e-3 > self.budget:
            wait = (period + 1) * PERIOD - now
            self.period, self.used = period + 1, 0.0
        self.used += 1e-3
        return wait + 1e-3


def traffic(arguments, port, rate, seconds):
    return load(arguments.binary, port, seconds, *SCENARIO.load, "-c", 48, "--rate", round(rate))


# Several servers without a distribution hold a copy of everything each.
SCENARIO = Scenario(list, "server")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.5, help="of each 100 ms that a server may work")
    parser.add_argument("--rate", type=float, default=450.0, help="requests a second of the usual traffic")
    parser.add_argument("--target", type=float, default=40.0, help="p99 in milliseconds")
    parser.add_argument("--most-time", type=int, default=180, help="seconds that the redline may take")
    parser.add_argument("--binary", default=str(ROOT / "target/release/krarup"))
    arguments = parser.parse_args()
    servers = [Server(Quota(arguments.share)) for _ in range(3)]
    proxy = Program(arguments.binary, servers, SCENARIO)
    target = f"p99 < {arguments.target:g}ms"
    try:
        usual = threading.Thread(target=traffic, args=(arguments, proxy.port, arguments.rate, BEFORE + arguments.most_time + 10), daemon=True)
        usual.start()
        time.sleep(BEFORE)
        before = proxy.headroom(target)
        command = [arguments.binary, "redline", f"127.0.0.1:{proxy.admin}", "--target", target, "--force", "--most-time", f"{arguments.most_time}s", "--json"]
        pushed = subprocess.run(command, capture_output=True, text=True)
        print(pushed.stderr, file=sys.stderr)
        if not pushed.stdout:
            sys.exit(f"it did not begin: exit code {pushed.returncode}")
        report = json.loads(pushed.stdout)
        if not report["proven"]:
            sys.exit(f"nothing is proven: {report['ended']} after {len(report['steps'])} steps")
        usual.join()
        traffic(arguments, proxy.port, arguments.rate, AFTER)
        after = proxy.headroom(target)
        full = load(arguments.binary, proxy.port, 8, *SCENARIO.load, "-c", 96)["overall"]["throughput"]
        proven = report["proven"]["traffic_per_s"]
        there = traffic(arguments, proxy.port, proven, 15)
    finally:
        proxy.stop()

    def told(answer):
        capacity = answer["capacity_per_s"] or {"low": 0, "mean": 0, "high": 0}
        return f"{answer['verdict']} {','.join(answer['silent'])} {capacity['low']:.0f} to {capacity['high']:.0f}, about {capacity['mean']:.0f}"

    def broke(proven):
        rates = {"missed_per_s": "the target was missed", "slower_per_s": "the service time rose"}
        return "".join(f", {words} at {proven[name]:.0f}/s" for name, words in rates.items() if name in proven)

    print(f"target {target}; usual traffic {arguments.rate:.0f}/s; full, measured {full:.0f}/s")
    print(f"headroom before: {told(before)}")
    print(f"redline: ended by {report['ended']} after {len(report['steps'])} steps; proven {proven:.0f}/s{broke(report['proven'])}")
    print(f"headroom after: {told(after)}")
    print(f"measured at the proven rate: p99 {1e3 * p99(there):.1f} ms at {there['overall']['throughput']:.0f}/s")


if __name__ == "__main__":
    main()
