#!/usr/bin/env python3
"""CPU time per request of krarup load, memtier_benchmark and memcslap, measured side by side in one run.

Two at a time put the same load on the same memcached, in turn, round after round: memtier_benchmark and krarup load with one thread each, and
memcslap, which has a thread per connection and sizes of its own, beside krarup load with those sizes. CPU time is the kernel's account of the whole process at its end (wait4), start and
report included; requests are those that the generator itself says it sent. Beside it stands what the same request cost
memcached (its own clock ticks, so to 10 ms of a run): a generator that is cheaper than memcached on each request can, on a core of its own,
keep a memcached thread busy all the time. Last, what one clock read and one accounted request cost, as a share of that.

    cargo build --release && cargo build --release -p krarup-load --example stamps
    bench/generators.py [--memtier PATH] [--rounds 5] [--seconds 3] [--only TEXT]

Needs memcached; memtier_benchmark and memcslap (Debian's libmemcached-tools) are left out where they are missing.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from proxies import rotated, write_csv

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Bytes of memcslap's keys and values, which cannot be set: each size between these is as likely as the others.
MEMCSLAP_KEYS, MEMCSLAP_VALUES = "20-59", "50-4999"
# Its tests, by SETs:GETs. It has none that mixes them.
MEMCSLAP_TESTS = {"0:1": "get", "1:0": "set"}
# name, connections, SETs:GETs, size of values, requests under way on each connection
WORKLOADS = [
    ("32 B GET, 16 connections", 16, "0:1", 32, 1),
    ("32 B GET, 96 connections", 96, "0:1", 32, 1),
    ("32 B SET, 96 connections", 96, "1:0", 32, 1),
    ("32 B 1:10, 96 connections", 96, "1:10", 32, 1),
    ("1024 B GET, 96 connections", 96, "0:1", 1024, 1),
    ("4096 B GET, 96 connections", 96, "0:1", 4096, 1),
    ("4096 B SET, 96 connections", 96, "1:0", 4096, 1),
    ("32 B GET, 96 conn., pipeline 8", 96, "0:1", 32, 8),
    ("50-4999 B GET, 16 connections", 16, "0:1", MEMCSLAP_VALUES, 1),
    ("50-4999 B GET, 96 connections", 96, "0:1", MEMCSLAP_VALUES, 1),
    ("50-4999 B SET, 96 connections", 96, "1:0", MEMCSLAP_VALUES, 1),
]
KEYS = 10_000


def run(command):
    """Runs to the end: CPU seconds, wall seconds, stdout."""
    begun = time.monotonic()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode()
    if process.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, command))} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - begun, text


def beside(workload, generators):
    """Those that can send this workload."""
    is_memcslap = workload[3] == MEMCSLAP_VALUES
    return [one for one in generators if one[0] == "krarup load" or (one[0] == "memcslap") == is_memcslap]


def sizes(workload):
    """The flags of krarup load for the sizes of a workload."""
    size = workload[3]
    return ["-d", size, *(["--key-size", MEMCSLAP_KEYS] if size == MEMCSLAP_VALUES else [])]


def krarup(binary, port, workload, seconds):
    _, connections, ratio, _, pipeline = workload
    cpu, _, text = run(
        [binary, "load", "-s", f"127.0.0.1:{port}", "-c", connections, "-t", 1, "--ratio", ratio, *sizes(workload),
         "--pipeline", pipeline,
         "--seconds", seconds, "--keys", KEYS, "--key-prefix", "memtier-", "--json", "-"]
    )
    result = json.loads(text)
    assert not result["overall"]["errors"], result["overall"]["errors"]
    return cpu, result["account"]["sent"], result["seconds"]


def memtier(binary, port, workload, seconds):
    _, connections, ratio, size, pipeline = workload
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        cpu, _, _ = run(
            [binary, "-s", "127.0.0.1", "-p", port, "-P", "memcache_text", "-c", connections, "-t", 1,
             f"--ratio={ratio}", f"--data-size={size}", f"--test-time={seconds}", f"--key-maximum={KEYS - 1}",
             f"--pipeline={pipeline}", "--hide-histogram", f"--json-out-file={out.name}"]
        )
        stats = json.load(open(out.name))["ALL STATS"]
    return cpu, stats["Totals"]["Count"], stats["Runtime"]["Total duration"] / 1e3


def ticks(pid):
    """Processor time a process has used so far, in seconds."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memcslap(binary, port, workload, seconds):
    # It counts requests instead of seconds.
    _, connections, ratio, *_ = workload
    each, test = 400 * seconds, MEMCSLAP_TESTS[ratio]
    cpu, wall, said = run(
        [binary, f"--servers=127.0.0.1:{port}", f"--concurrency={connections}", f"--execute-number={each}", f"--test={test}"]
    )
    return cpu, memcslap_requests(said, test, connections, each), wall


def memcslap_requests(said, test, connections, each):
    """How many requests it says were done; it ends with 0 whatever failed. Before a test of GETs it stores its keys, which are requests too."""
    done = [int(count) for count in re.findall(r"^Time to [gs]et +(\d+) keys", said, re.MULTILINE)]
    wanted = ([each] if test == "get" else []) + [connections * each]
    if done != wanted:
        sys.exit(f"error: memcslap did {done} of {wanted} requests")
    return sum(done)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--krarup", default=ROOT / "target/release/krarup")
    arguments.add_argument("--memtier", default=shutil.which("memtier_benchmark"))
    arguments.add_argument("--memcslap", default=shutil.which("memcslap"))
    arguments.add_argument("--stamps", default=ROOT / "target/release/examples/stamps")
    arguments.add_argument("--only", default="", help="only workloads whose name has this in it")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=int, default=3)
    arguments.add_argument("--csv", help="write the medians here, as docs/comparisons has them")
    arguments = arguments.parse_args()

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = ["memcached", "-l", "127.0.0.1", "-U", "0", "-t", "1", "-m", "256", "-p", str(port)]
    server = subprocess.Popen(command + (["-u", "nobody"] if os.geteuid() == 0 else []))
    generators = [("krarup load", krarup, arguments.krarup)]
    generators += [("memtier", memtier, arguments.memtier)] if arguments.memtier else []
    generators += [("memcslap", memcslap, arguments.memcslap)] if arguments.memcslap else []
    try:
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                break
            except OSError:
                time.sleep(0.01)
        print(f"{'workload':<31} {'generator':<12} {'µs/request':>10} {'krarup is':>22} {'memcached µs':>13} {'memcached busy':>14} {'requests/s':>11}")
        cheapest = float("inf")
        table = [["", "generator", "processor (µs)", "krarup is", "requests/s"]]
        for workload in (one for one in WORKLOADS if arguments.only in one[0]):
            here = beside(workload, generators)
            run([arguments.krarup, "load", "-s", f"127.0.0.1:{port}", "--populate-only", "--keys", KEYS,
                 "--key-prefix", "memtier-", *sizes(workload)])
            costs, theirs, busy, rates = ({name: [] for name, _, _ in here} for _ in range(4))
            for turn in range(arguments.rounds):
                for name, generator, binary in rotated(here, turn):
                    before = ticks(server.pid)
                    cpu, requests, seconds = generator(binary, port, workload, arguments.seconds)
                    spent = ticks(server.pid) - before
                    costs[name].append(cpu / requests * 1e6)
                    theirs[name].append(spent / requests * 1e6)
                    busy[name].append(spent / seconds)
                    rates[name].append(requests / seconds)
            cheapest = min(cheapest, statistics.median(costs["krarup load"]))
            for name in costs:
                ratios = [ours / others for ours, others in zip(costs["krarup load"], costs[name])]
                compared = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
                print(f"{workload[0]:<31} {name:<12} {statistics.median(costs[name]):>10.2f} "
                      f"{'' if name == 'krarup load' else compared:>22} {statistics.median(theirs[name]):>13.2f} "
                      f"{statistics.median(busy[name]):>13.0%} {statistics.median(rates[name]):>11,.0f}", flush=True)
                table.append([workload[0], name, f"{statistics.median(costs[name]):.2f}",
                              "" if name == "krarup load" else compared, f"{statistics.median(rates[name]):,.0f}"])
        if arguments.csv:
            write_csv(arguments.csv, table)
        if pathlib.Path(arguments.stamps).exists():
            _, _, text = run([arguments.stamps])
            cost = json.loads(text)
            share = {name: value / 1e3 / cheapest for name, value in cost.items()}
            print(f"a clock read: {cost['stamp_ns']} ns, {share['stamp_ns']:.1%} of the cheapest request above; "
                  f"accounting for a request: {cost['account_ns']} ns, {share['account_ns']:.1%}")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
