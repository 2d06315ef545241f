#!/usr/bin/env python3
"""Processor time per request of two builds of krarup, measured side by side in one run: what a change costs, or gains.

    cargo build --release -p krarup -p krarup-serve --example drive
    bench/builds.py BEFORE AFTER [--rounds 8] [--seconds 2] [--parts proxy,cache,broker,generator,simulator] [--workloads WORDS] [--json FILE]

BEFORE and AFTER are two binaries made with the same profile. They take turns, and who begins changes from round to round. Each figure is the
processor time of the process under test (/proc/PID/task/*/schedstat; of the generator and the simulator the kernel's account at their end), divided by what
it answered; the load, the servers and the database are the same for both. The ratio AFTER / BEFORE is the geometric mean over rounds with its 95 %
interval (Student's t of the logarithms of the rounds' ratios). Broker: put, reserve, delete of 32 clients, in memory and in three modes over PostgreSQL, and
beside each of these what a request takes from all of PostgreSQL's processes: what a change saves in the broker it may cost there.

Needs memcached, and PostgreSQL's programs for the broker.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import broker
from intervals import interval
from proxies import ROOT, WORKLOADS, cache, free_port, krarup_proxy, load, measure, memcached

PROXY = [
    "64 B, 1:10, 32 connections",
    "64 B, 1:10, 192 connections",
    "4096 B GET, 96 connections",
    "4096 B SET, 96 connections",
    "64 B, 1:10, 96 connections, pipeline 16",
    "multi-GET 9 x 64 B over 3 servers, 32 connections",
    "SET 64 B replicated to 3 servers, 96 connections",
]
# Each value is in memory of its own: what the allocator takes for it.
LARGE = [("256 KiB SET, 8 connections", 1, "-c 8 --ratio 1:0 -d 262144")]
CACHE = [("64 B, 1:10, 32 connections", "-c 32 --ratio 1:10 -d 64"), ("4096 B GET, 96 connections", "-c 96 --ratio 0:1 -d 4096")]
GENERATOR = [
    ("64 B 1:10, 96 connections", "-c 96 --ratio 1:10 -d 64"),
    ("64 B 1:10, 96 connections, pipeline 8", "-c 96 --ratio 1:10 -d 64 --pipeline 8"),
    ("1:10, 16 connections, 5,000 a second (open)", "-c 16 --ratio 1:10 -d 64 --rate 5000"),
]
SIMULATED = {
    "M/M/16, 0.9 busy": """
[[station]]
name = "servers"
servers = 16

[[class]]
name = "jobs"
rate = 14.4
path = [{ at = "servers", service = "1 s" }]
""",
    "288 clients, 128 workers held, copies to three servers": """
[[station]]
name = "one"

[[station]]
name = "two"

[[station]]
name = "three"

[[pool]]
name = "workers"
size = 128

[[class]]
name = "set"
population = 288
think = "800 us"
path = [{ hold = "workers", path = [{ fork = ["one", "two", "three"], wait = "all", service = "61 us" }] }]
""",
}


class Comparison:
    """Runs both builds in turn and prints a line for each workload."""

    def __init__(self, options):
        self.options, self.found = options, {}
        print(f"| part | workload | before, µs | after, µs | ratio, 95 % interval ({options.rounds} rounds) |\n|---|---|---:|---:|---:|", flush=True)

    def compare(self, part, name, once):
        """`once(side)` gives microseconds per request (or event) of one run of side 0 or 1."""
        self.compare_several(part, [name], lambda side: [once(side)])

    def compare_several(self, part, names, once):
        """The same, where one run gives several figures, a line each."""
        runs = [([], []) for _ in names]
        for turn in range(self.options.rounds):
            for side in (0, 1) if turn % 2 == 0 else (1, 0):
                for kept, figure in zip(runs, once(side), strict=True):
                    kept[side].append(figure)
        for name, kept in zip(names, runs):
            ratio, low, high = interval(*kept)
            before, after = (statistics.median(side) for side in kept)
            print(f"| {part} | {name} | {before:.3f} | {after:.3f} | {ratio:.3f} [{low:.3f}, {high:.3f}] |", flush=True)
            self.found[f"{part}: {name}"] = {"before": kept[0], "after": kept[1], "ratio": [ratio, low, high]}


def proxies(table, builds, options):
    """The load and the servers are the same for both: two proxies before one set of servers."""
    chosen = [workload for workload in WORKLOADS if workload[0] in PROXY] + LARGE
    for name, count, flags in [workload for workload in chosen if options.workloads in workload[0]]:
        servers = [memcached() for _ in range(count)]
        stations = [krarup_proxy(build, servers) for build in builds]
        try:
            for station in stations:
                if "--ratio 1:0" not in flags:
                    load(builds[0], station.port, flags, ["--populate-only"])
            table.compare("proxy", name, lambda side: measure(builds[0], stations[side], servers, flags, options.seconds)["proxy_us"])
        finally:
            for station in stations + servers:
                station.stop()


def caches(table, builds, options):
    for name, flags in CACHE:
        stations = [cache(build) for build in builds]
        try:
            for station in stations:
                load(builds[0], station.port, flags, ["--populate-only"])
            table.compare("cache", name, lambda side: measure(builds[0], stations[side], [], flags, options.seconds)["proxy_us"])
        finally:
            for station in stations:
                station.stop()


def brokers(table, builds, options):
    broker.RELEASE = pathlib.Path(options.drive).parent.parent
    with tempfile.TemporaryDirectory(prefix="krarup-bench-") as folder:
        os.chmod(folder, 0o755)
        data = pathlib.Path(folder) / "cluster"
        data.mkdir()
        cluster = broker.Cluster(str(data))
        try:
            for mode in [None, *broker.MODES]:
                stations = []
                for side, build in enumerate(builds):
                    store = cluster.database(f"jobs_{mode}_{side}") if mode else "memory"
                    port = free_port()
                    command = [build, "broker", "--listen", f"127.0.0.1:{port}", "--memory", "1GiB", "--store", store]
                    stations.append(broker.serve(command + ["--mode", mode] if mode else command, port))
                    broker.drive(port, 1, 0, 200, 10_000)

                # The sessions of the side that is not driven are idle.
                names = [mode, f"{mode}, PostgreSQL"] if mode else ["memory"]

                def once(side):
                    spent = [stations[side].cpu, cluster.cpu][: len(names)]
                    before = [cpu() for cpu in spent]
                    run = broker.drive(stations[side].port, 32, max(2, round(options.seconds)), 200)
                    return [1e6 * (cpu() - was) / run["requests"] for cpu, was in zip(spent, before)]

                try:
                    table.compare_several("broker", names, once)
                finally:
                    for station in stations:
                        station.stop()
        finally:
            cluster.stop()


def spent(command):
    """Seconds of processor time of a command, and what it printed."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, command))} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, said


def generators(table, builds, options):
    server = memcached()
    try:
        for name, flags in GENERATOR:
            load(builds[0], server.port, flags, ["--populate-only"])

            def once(side):
                words = [builds[side], "load", "--progress", "none", "--servers", f"127.0.0.1:{server.port}", "--keys", "10000", *flags.split()]
                seconds, said = spent([*words, "--seconds", f"{options.seconds}s", "--json", "-"])
                return 1e6 * seconds / json.loads(said)["account"]["answered"]

            table.compare("generator", name, once)
    finally:
        server.stop()


def simulators(table, builds, options):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "network.toml"
        for name, text in SIMULATED.items():
            file.write_text(text)

            def once(side):
                command = [builds[side], "model", "simulate", file, "--precision", "0", "--max-events", str(options.events), "--progress", "none", "--json"]
                return 1e6 * spent(command)[0] / options.events

            table.compare("simulator", name, once)


PARTS = {"proxy": proxies, "cache": caches, "broker": brokers, "generator": generators, "simulator": simulators}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("before")
    arguments.add_argument("after")
    arguments.add_argument("--rounds", type=int, default=8)
    arguments.add_argument("--seconds", type=float, default=2.0)
    arguments.add_argument("--events", type=int, default=5_000_000, help="of each simulation")
    arguments.add_argument("--parts", default=",".join(PARTS))
    arguments.add_argument("--workloads", default="", metavar="WORDS", help="of the proxy, those whose name has these words")
    arguments.add_argument("--drive", default=str(ROOT / "target/release/examples/drive"), help="the broker's clients")
    arguments.add_argument("--json", metavar="FILE", help="write every figure here")
    options = arguments.parse_args()
    builds = [str(pathlib.Path(build).resolve()) for build in (options.before, options.after)]
    table = Comparison(options)
    for part in options.parts.split(","):
        PARTS[part](table, builds, options)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(table.found, indent=1))


if __name__ == "__main__":
    main()
