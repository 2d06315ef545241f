#!/usr/bin/env python3
"""What krarup redline proves of a server whose limit no usual traffic meets, beside what is measured afterwards.

Three servers hold the same keys; each works 1 ms on a request and may work for a share of each 100 ms only, as under a processor quota. The usual
traffic stays below that, so passive headroom cannot see it. Then one of them is pushed, headroom is asked again, and the truth is measured: clients
that ask again at once, and the response time at the rate that was proven.

    cargo build --release
    bench/redline.py [--share 0.5] [--rate 450] [--target 40] [--binary target/release/krarup]
"""

import argparse
import json
import subprocess
import sys
import threading
import time

from headroom import ROOT, Proxy, Server, load, p99

PERIOD = 0.1


class Quota:
    """Service of 1 ms; of each period the server works for a share, and stands still for the rest."""

    def __init__(self, share):
        self.budget, self.period, self.used = share * PERIOD, 0, 0.0

    def __call__(self):
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
    return load(arguments.binary, port, seconds, "-c", 48, "--rate", round(rate))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.5, help="of each 100 ms that a server may work")
    parser.add_argument("--rate", type=float, default=450.0, help="requests a second of the usual traffic")
    parser.add_argument("--target", type=float, default=40.0, help="p99 in milliseconds")
    parser.add_argument("--binary", default=str(ROOT / "target/release/krarup"))
    arguments = parser.parse_args()
    servers = [Server(Quota(arguments.share)) for _ in range(3)]
    proxy = Proxy(arguments.binary, servers, "")
    target = f"p99 < {arguments.target:g}ms"
    try:
        usual = threading.Thread(target=traffic, args=(arguments, proxy.port, arguments.rate, 280), daemon=True)
        usual.start()
        time.sleep(45)
        before = proxy.headroom(target)
        command = [arguments.binary, "redline", f"127.0.0.1:{proxy.admin}", "--target", target, "--force", "--most-time", "3m", "--json"]
        pushed = subprocess.run(command, capture_output=True, text=True)
        print(pushed.stderr, file=sys.stderr)
        report = json.loads(pushed.stdout)
        usual.join()
        traffic(arguments, proxy.port, arguments.rate, 75)
        after = proxy.headroom(target)
        full = load(arguments.binary, proxy.port, 8, "-c", 96)["overall"]["throughput"]
        proven = report["proven"]["traffic_per_s"]
        there = traffic(arguments, proxy.port, proven, 15)
    finally:
        proxy.stop()

    def told(answer):
        capacity = answer["capacity_per_s"] or {"low": 0, "mean": 0, "high": 0}
        return f"{answer['verdict']} {','.join(answer['silent'])} {capacity['low']:.0f} to {capacity['high']:.0f}, about {capacity['mean']:.0f}"

    print(f"target {target}; usual traffic {arguments.rate:.0f}/s; full, measured {full:.0f}/s")
    print(f"headroom before: {told(before)}")
    print(f"redline: ended by {report['ended']} after {len(report['steps'])} steps; proven {proven:.0f}/s")
    print(f"headroom after: {told(after)}")
    print(f"measured at the proven rate: p99 {1e3 * p99(there):.1f} ms at {there['overall']['throughput']:.0f}/s")


if __name__ == "__main__":
    main()
