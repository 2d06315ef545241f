#!/usr/bin/env python3
"""What load generators report of a server that stands still 100 ms each second, beside what was true.

memcached is stopped and continued by signals; krarup load, memtier_benchmark and a loop as in wrk (send, wait, note the time) put 5,000 requests a second on
it, in turn. What was true needs no measurement: of requests that come at even times a tenth meet a server that stands still, and wait for what is left of
the 100 ms; so a hundredth waits for 90 ms and longer, and a thousandth for 99 ms and longer. A generator that sends nothing while it waits sees
one request of each connection wait, and reports that nearly all were quick.

    cargo build --release && bench/frozen.py [--memtier PATH] [--seconds 20] [--csv FILE]

Needs memcached; memtier_benchmark is left out where it is missing.
"""

import argparse
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from proxies import ROOT, memcached, write_csv

RATE, CONNECTIONS, STILL, EVERY = 5_000, 50, 0.1, 1.0
SHARES = [50, 95, 99, 99.9]


def truth():
    """Milliseconds that a share of the requests waits at most, where each is answered at once but for the stops."""
    busy = STILL / EVERY
    return [max(0.0, (share / 100 - (1 - busy)) / busy * STILL * 1e3) for share in SHARES]


class Stops:
    """Stops a process for STILL seconds of each EVERY, at times that do not drift."""

    def __init__(self, pid):
        self.pid, self.over = pid, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def run(self):
        begun, count = time.monotonic(), 0
        while not self.over.wait(max(0.0, begun + (count + 0.5) * EVERY - time.monotonic())):
            os.kill(self.pid, signal.SIGSTOP)
            time.sleep(max(0.0, begun + (count + 0.5) * EVERY + STILL - time.monotonic()))
            os.kill(self.pid, signal.SIGCONT)
            count += 1


def krarup(binary, port, seconds, flags):
    words = [binary, "load", "--servers", f"127.0.0.1:{port}", "--keys", "1000", "--ratio", "0:1", "-c", str(CONNECTIONS), *flags]
    words += ["--seconds", str(seconds), "--progress", "none", "--json", "-"]
    overall = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)["overall"]
    times = overall["response_time"]
    return overall["throughput"], [times[name] * 1e3 for name in ("p50", "p95", "p99", "p999")]


def memtier(binary, port, seconds, flags):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        words = [binary, "-s", "127.0.0.1", "-p", str(port), "-P", "memcache_text", "-t", "1", "-c", str(CONNECTIONS), "--ratio=0:1", "--hide-histogram"]
        words += ["--key-maximum=1000", f"--test-time={seconds}", f"--print-percentiles={','.join(map(str, SHARES))}", f"--json-out-file={out.name}", *flags]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        totals = json.load(open(out.name))["ALL STATS"]["Totals"]
    times = totals["Percentile Latencies"]
    return totals["Ops/sec"], [times[f"p{share:.2f}" if share != 99.9 else "p99.90"] for share in SHARES]


def loop(port, seconds):
    """Threads that send, wait and note the time, each a fiftieth of the rate, and never catch up."""
    times, over = [], time.monotonic() + seconds

    def client():
        with socket.create_connection(("127.0.0.1", port)) as stream:
            answered = stream.makefile("rb")
            while (begun := time.monotonic()) < over:
                stream.sendall(b"get memtier-1\r\n")
                while answered.readline() != b"END\r\n":
                    pass
                ended = time.monotonic()
                times.append(ended - begun)
                time.sleep(max(0.0, CONNECTIONS / RATE - (ended - begun)))

    threads = [threading.Thread(target=client) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times.sort()
    return len(times) / seconds, [times[min(len(times) - 1, math.ceil(share / 100 * len(times)) - 1)] * 1e3 for share in SHARES]


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--binary", default=str(ROOT / "target/release/krarup"))
    flags.add_argument("--memtier", default=shutil.which("memtier_benchmark"))
    flags.add_argument("--seconds", type=int, default=20)
    flags.add_argument("--csv", help="write the table here, as docs/comparisons has it")
    flags = flags.parse_args()
    server = memcached()
    each = RATE // CONNECTIONS
    sides = [
        ("`krarup load --rate 5000`", lambda: krarup(flags.binary, server.port, flags.seconds, ["--rate", str(RATE)])),
        ("`krarup load`, closed", lambda: krarup(flags.binary, server.port, flags.seconds, [])),
    ]
    if flags.memtier:
        sides += [
            (f"memtier_benchmark `--rate-limiting={each}`", lambda: memtier(flags.memtier, server.port, flags.seconds, [f"--rate-limiting={each}"])),
            ("memtier_benchmark, closed", lambda: memtier(flags.memtier, server.port, flags.seconds, [])),
        ]
    sides.append(("a loop: send, wait, note the time", lambda: loop(server.port, flags.seconds)))
    rows = [["", "requests/s", *(f"p{share} (ms)" for share in SHARES)], ["what was true", f"{RATE:,}", *(f"{value:.2f}" for value in truth())]]
    try:
        subprocess.run([flags.binary, "load", "--servers", f"127.0.0.1:{server.port}", "--keys", "1000", "--populate-only"], check=True, capture_output=True)
        for name, side in sides:
            with Stops(server.process.pid):
                rate, times = side()
            rows.append([name, f"{rate:,.0f}", *(f"{value:.2f}" for value in times)])
    finally:
        server.stop()
    for row in rows:
        print(f"{row[0]:44}" + "".join(f"{cell:>14}" for cell in row[1:]))
    if flags.csv:
        write_csv(flags.csv, rows)


if __name__ == "__main__":
    main()
