#!/usr/bin/env python3
"""Whether one thread of krarup load keeps one thread of memcached busy all the time.

memcached gets one core and one worker thread, the generator another core and one thread; the busiest thread of each is watched from
outside while the load runs (/proc/PID/task/*/schedstat: time on a core, and time ready to run without getting one, to the nanosecond).
Both together are the time in which it had something to do: at 100 % it is saturated, whatever else used the core. With --first (needs
root) both go before everybody else on the machine, for a machine that others use too. In each round the generators take turns;
the figures are medians, with the least and the most.

    cargo build --release
    bench/saturation.py [--memtier PATH] [--rounds 5] [--seconds 5] [--first]
"""

import argparse
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import time

from proxies import rotated

ROOT = pathlib.Path(__file__).resolve().parent.parent

# name, SETs:GETs, size of values, connections, requests under way on each
WORKLOADS = [
    ("64 B 1:10, 96 connections", "1:10", 64, 96, 1),
    ("64 B 1:10, 96 conn., pipeline 8", "1:10", 64, 96, 8),
    ("64 B 1:10, 96 conn., pipeline 32", "1:10", 64, 96, 32),
]
KEYS = 10_000
# What the beginning of a run is left out of the watching, and its end.
EDGE = 0.7


def worked(pid):
    """For each thread of a process: seconds that it was on a core, and seconds that it waited for one."""
    threads = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        on, ready, *_ = (task / "schedstat").read_text().split()
        threads[task.name] = (int(on) / 1e9, int(ready) / 1e9)
    return threads


def busiest(before, after, length):
    """Of the thread that was on a core for longest: the share of the time that it was, and that it waited to be."""
    parts = [(on - before.get(name, (0, 0))[0], ready - before.get(name, (0, 0))[1]) for name, (on, ready) in after.items()]
    on, ready = max(parts)
    return on / length, ready / length


def requests(port):
    """Gets and sets that memcached has counted."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"stats\r\nquit\r\n")
        text = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    stats = dict(line.split()[1:3] for line in text.splitlines() if line.startswith("STAT") and len(line.split()) == 3)
    return int(stats["cmd_get"]) + int(stats["cmd_set"])


def command(name, binary, port, workload, seconds):
    _, ratio, size, connections, pipeline = workload
    if name == "krarup load":
        return [binary, "load", "-s", f"127.0.0.1:{port}", "-c", connections, "-t", 1, "--ratio", ratio, "-d", size, "--pipeline",
                pipeline, "--seconds", seconds, "--keys", KEYS, "--key-prefix", "memtier-", "--json", "-"]
    return [binary, "-s", "127.0.0.1", "-p", port, "-P", "memcache_text", "-c", connections, "-t", 1, f"--ratio={ratio}",
            f"--data-size={size}", f"--test-time={seconds}", f"--key-maximum={KEYS - 1}", f"--pipeline={pipeline}",
            "--hide-histogram"]


def on_core(core, first):
    def begin():
        os.sched_setaffinity(0, {core})
        if first:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    return begin


def measure(name, binary, server, port, workload, seconds, begin):
    words = [str(word) for word in command(name, binary, port, workload, seconds)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=begin)
    time.sleep(EDGE)
    begun, count, theirs, ours = time.monotonic(), requests(port), worked(server.pid), worked(process.pid)
    time.sleep(seconds - 2 * EDGE)
    ended, after, theirs_after, ours_after = time.monotonic(), requests(port), worked(server.pid), worked(process.pid)
    if process.wait() != 0:
        sys.exit(f"error: {' '.join(words)} ended with {process.returncode}")
    length = ended - begun
    server_on, server_ready = busiest(theirs, theirs_after, length)
    generator_on, generator_ready = busiest(ours, ours_after, length)
    return {
        "memcached on": server_on,
        "memcached had work": server_on + server_ready,
        "generator on": generator_on,
        "generator had work": generator_on + generator_ready,
        "rate": (after - count) / length,
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--krarup", default=ROOT / "target/release/krarup")
    arguments.add_argument("--memtier", default=shutil.which("memtier_benchmark"))
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=int, default=5)
    arguments.add_argument("--first", action="store_true", help="go before everybody else on the machine")
    arguments = arguments.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if arguments.first:
        # Who watches must not wait for those who are watched.
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(2))
    if len(cores) < 2:
        sys.exit("error: two cores are needed, one for memcached and one for the generator")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    words = ["memcached", "-l", "127.0.0.1", "-U", "0", "-t", "1", "-m", "256", "-p", str(port)]
    words += ["-u", "nobody"] if os.geteuid() == 0 else []
    server = subprocess.Popen(words, preexec_fn=on_core(cores[0], arguments.first))
    generators = [("krarup load", arguments.krarup)]
    generators += [("memtier", arguments.memtier)] if arguments.memtier else []
    try:
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                break
            except OSError:
                time.sleep(0.01)
        subprocess.run([str(arguments.krarup), "load", "-s", f"127.0.0.1:{port}", "--populate-only", "--keys", str(KEYS),
                        "--key-prefix", "memtier-", "-d", "64"], check=True, stdout=subprocess.DEVNULL)
        print(f"{'workload':<33} {'generator':<12} {'memcached had work':>20} {'on its core':>20} {'generator had work':>19} {'on its core':>12} {'requests/s':>11}")
        for workload in WORKLOADS:
            seen = {name: [] for name, _ in generators}
            for turn in range(arguments.rounds):
                for name, binary in rotated(generators, turn):
                    seen[name].append(measure(name, binary, server, port, workload, arguments.seconds, on_core(cores[1], arguments.first)))
            for name, rounds in seen.items():
                middle = lambda what: statistics.median(one[what] for one in rounds)
                shown = lambda what: (f"{middle(what):.1%} ({min(one[what] for one in rounds):.0%}-{max(one[what] for one in rounds):.0%})")
                print(f"{workload[0]:<33} {name:<12} {shown('memcached had work'):>20} {shown('memcached on'):>20} "
                      f"{middle('generator had work'):>19.1%} {middle('generator on'):>12.1%} {middle('rate'):>11,.0f}", flush=True)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
