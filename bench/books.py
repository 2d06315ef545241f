#!/usr/bin/env python3
"""What the live books of the proxy, or its hot keys, cost: processor time per request with and without, in one process.

Two builds differ by their layout alone, by some percent: so one proxy, built with bench/books.patch, keeps its books (with
--hot-keys: samples requests for its hot keys) or does not, in turns of 200 ms, and prints at each turn what was answered and its thread's processor time. Pairs of neighbouring
turns are compared.

    git apply bench/books.patch && cargo build --release && cp target/release/krarup /tmp/switching && git apply -R bench/books.patch
    cargo build --release && bench/books.py --binary /tmp/switching --connections 32 --seconds 560 [--hot-keys]

Needs memcached and a quiet machine.
"""

import argparse
import math
import os
import pathlib
import statistics
import sys
import tempfile

from intervals import mean_and_half
from proxies import ROOT, krarup_proxy, load, memcached


def turns(text):
    """Of each turn: whether the books were kept, and nanoseconds of processor time per request."""
    rows = [[int(word) for word in line.split()[1:]] for line in text.splitlines() if line.startswith("TURN ")]
    found = []
    for before, after in zip(rows, rows[1:]):
        if after[1] > 1000:
            found.append((after[0] == 1, (after[2] - before[2]) / after[1], after[1]))
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", required=True, help="krarup built with bench/books.patch")
    arguments.add_argument("--generator", default=ROOT / "target/release/krarup", type=pathlib.Path)
    arguments.add_argument("--connections", type=int, default=32)
    arguments.add_argument("--seconds", type=float, default=560)
    arguments.add_argument("--hot-keys", action="store_true", help="what hot keys cost, in place of the live books")
    options = arguments.parse_args()
    if options.seconds < 30:
        arguments.error("--seconds must be at least 30: an interval needs several blocks of twenty pairs")
    what = "hot keys" if options.hot_keys else "books"
    if options.hot_keys:
        os.environ["SWITCH_HOT_KEYS"] = "1"
    with tempfile.TemporaryFile("w+") as told:
        server = memcached()
        proxy = krarup_proxy(options.binary, [server], stderr=told)
        try:
            flags = f"-c {options.connections} --ratio 1:10 -d 64"
            load(options.generator, proxy.port, flags, ["--seconds", f"{options.seconds}s", "--json", "-"])
        finally:
            proxy.stop()
            server.stop()
        told.seek(0)
        found = turns(told.read())
    pairs = []
    for one, other in zip(found[::2], found[1::2]):
        if one[0] != other[0]:
            ratio = math.log(one[1] / other[1])
            pairs.append(ratio if one[0] else -ratio)
    # Neighbouring pairs are alike: the interval is that of the means of twenty.
    blocks = [statistics.mean(pairs[at : at + 20]) for at in range(0, len(pairs) - 19, 20)]
    if len(blocks) < 2:
        sys.exit(f"{len(pairs)} pairs of turns tell no interval: give more --seconds")
    mean, half = mean_and_half(blocks)
    print(f"{sum(one[2] for one in found):,} requests, {len(pairs)} pairs of turns")
    for kept in (True, False):
        cost = statistics.mean(one[1] for one in found if one[0] == kept)
        print(f"{'with' if kept else 'without'} {what}: {cost / 1000:.3f} µs of processor time a request")
    print(f"ratio {math.exp(mean):.4f}, 95 % interval [{math.exp(mean - half):.4f}, {math.exp(mean + half):.4f}]")


if __name__ == "__main__":
    main()
