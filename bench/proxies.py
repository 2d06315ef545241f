#!/usr/bin/env python3
"""CPU time per request of krarup proxy and of twemproxy, measured side by side in one run.

Both stand before the same memcached, in turn, round after round, under the same load (krarup load, closed
loop). CPU time is the scheduler's own account of the proxy process (/proc/PID/task/*/schedstat), so what load
generator and servers take does not count. twemproxy runs with -v 4, which is fairest to it: at its default it
makes a log line of every request and throws it away.

    cargo build --release && bench/proxies.py [--rounds 5] [--seconds 2] [--json FILE]

Needs memcached and nutcracker (Debian's packages memcached and nutcracker).
"""

import argparse
import csv
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

# name, servers, flags of the load generator
WORKLOADS = [
    ("64 B, 1:10, 1 connection", 1, "-c 1 --ratio 1:10 -d 64"),
    ("64 B, 1:10, 2 connections", 1, "-c 2 --ratio 1:10 -d 64"),
    ("64 B, 1:10, 32 connections", 1, "-c 32 --ratio 1:10 -d 64"),
    ("64 B, 1:10, 96 connections", 1, "-c 96 --ratio 1:10 -d 64"),
    ("64 B, 1:10, 192 connections", 1, "-c 192 --ratio 1:10 -d 64"),
    ("4096 B GET, 96 connections", 1, "-c 96 --ratio 0:1 -d 4096"),
    ("4096 B SET, 96 connections", 1, "-c 96 --ratio 1:0 -d 4096"),
    ("64 B, 1:10, 96 connections, pipeline 16", 1, "-c 96 --ratio 1:10 -d 64 --pipeline 16"),
    ("multi-GET 9 x 64 B over 3 servers, 32 connections", 3, "-c 32 --ratio 0:9 --multi-get 9 -d 64"),
    ("SET 64 B to one server, 96 connections", 1, "-c 96 --ratio 1:0 -d 64"),
    ("SET 64 B replicated to 3 servers, 96 connections", 3, "-c 96 --ratio 1:0 -d 64"),
    ("multi-GET 9 x 4096 B over 3 servers, 32 connections", 3, "-c 32 --ratio 0:9 --multi-get 9 -d 4096"),
]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(port, patience):
    for _ in range(100 * patience):
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            return
        except OSError:
            time.sleep(0.01)
    sys.exit(f"error: nothing listens on port {port}")


def write_csv(path, rows):
    """A table as docs/comparisons has it: its head, then a row each."""
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def cpu_seconds(pid):
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


class Station:
    """A process that listens within `patience` seconds, and is ended by its own handle."""

    def __init__(self, command, port, patience=5, stderr=subprocess.DEVNULL):
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)
        self.port = port
        self.patience = patience
        wait_for(port, patience)

    def cpu(self):
        return cpu_seconds(self.process.pid)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(2 * self.patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def memcached():
    port = free_port()
    command = ["memcached", "-l", "127.0.0.1", "-U", "0", "-t", "1", "-m", "256", "-p", str(port)]
    return Station(command + (["-u", "nobody"] if os.geteuid() == 0 else []), port)


def krarup_proxy(binary, servers, flags=(), stderr=subprocess.DEVNULL):
    port = free_port()
    names = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return Station([binary, "proxy", "--listen", f"127.0.0.1:{port}", "--servers", names, "--sharded", "true", *flags], port, stderr=stderr)


def memcached_proxy(program, servers, replicated, folder):
    """memcached's own proxy, where a memcached built with it is installed (--memcached-proxy).

    One thread and its own route library: a second thread, a thread for its servers and a hand-written route took as much
    CPU time per request or more where they were tried. Copies are written by `route_allsync`, which waits for all servers.
    """
    port = free_port()
    names = [f'"127.0.0.1:{server.port}"' for server in servers]
    if replicated:
        pools = ", ".join(f"p{place} = {{ backends = {{ {name} }} }}" for place, name in enumerate(names))
        children = ", ".join(f'"p{place}"' for place in range(len(names)))
        route = f"route_allsync{{ children = {{ {children} }} }}"
    else:
        pools = f"main = {{ backends = {{ {', '.join(names)} }} }}"
        route = 'route_direct{ child = "main" }'
    config = pathlib.Path(folder) / f"proxy-{port}.lua"
    config.write_text(f"pools{{ {pools} }}\nroutes{{ default = {route} }}\n")
    command = [program, "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-t", "1", "-o", f"proxy_config=routelib,proxy_arg={config}"]
    return Station(command + (["-u", "nobody"] if os.geteuid() == 0 else []), port)


def cache(binary):
    """Our own server, asked without a proxy: one read and one write for each request, and hardly anything else (--floor)."""
    port = free_port()
    return Station([binary, "cache", "--listen", f"127.0.0.1:{port}", "-m", "256"], port)


def multiplexer(binary, servers):
    """A proxy that understands nothing and measures nothing, for one server (--floor)."""
    port = free_port()
    program = pathlib.Path(binary).parent / "examples/multiplexer"
    if not program.exists():
        sys.exit(f"error: {program} is not there\n  hint: cargo build --release -p krarup-serve --example multiplexer")
    return Station([str(program), f"127.0.0.1:{port}", f"127.0.0.1:{servers[0].port}"], port)


def twemproxy(servers, folder):
    port = free_port()
    lines = ["bench:", f"  listen: 127.0.0.1:{port}", "  hash: fnv1a_64", "  distribution: ketama", "  servers:"]
    lines += [f"   - 127.0.0.1:{server.port}:1" for server in servers]
    config = pathlib.Path(folder) / f"nutcracker-{port}.yml"
    config.write_text("\n".join(lines) + "\n")
    program = next(p for p in ("/usr/sbin/nutcracker", "nutcracker") if p == "nutcracker" or os.path.exists(p))
    return Station([program, "-c", str(config), "-v", "4", "-s", str(free_port()), "-m", "16384"], port)


def load(binary, port, flags, extra):
    words = [binary, "load", "--progress", "none", "--servers", f"127.0.0.1:{port}", "--keys", "10000"]
    output = subprocess.run(words + flags.split() + extra, check=True, capture_output=True).stdout
    return output


def measure(binary, proxy, servers, flags, seconds):
    """One run: microseconds of the proxy and of the servers per request, rate, percentiles of the response time."""
    load(binary, proxy.port, flags, ["--seconds", "0.3s"])
    before, servers_before = proxy.cpu(), sum(server.cpu() for server in servers)
    result = json.loads(load(binary, proxy.port, flags, ["--seconds", f"{seconds}s", "--json", "-"]))
    after, servers_after = proxy.cpu(), sum(server.cpu() for server in servers)
    answered = result["account"]["answered"]
    if result["overall"]["errors"] or result["account"]["lost"]:
        sys.exit(f"error: requests failed: {result['overall']['errors']} {result['account']['lost']}")
    times = result["overall"]["response_time"]
    return {
        "proxy_us": (after - before) / answered * 1e6,
        "server_us": (servers_after - servers_before) / answered * 1e6,
        "rate": result["overall"]["throughput"],
        "p50_ms": times["p50"] * 1e3,
        "p99_ms": times["p99"] * 1e3,
        "p999_ms": times["p999"] * 1e3,
    }


# What is printed of a run, its width, and its digits. The ratio of CPU to twemproxy's stands behind the first.
COLUMNS = [("proxy_us", 17, 2), ("server_us", 13, 1), ("rate", 15, 0), ("p50_ms", 13, 3), ("p99_ms", 13, 2), ("p999_ms", 13, 2)]


def row(name, ratio, sides):
    """A line of the table: the medians of each side, with strokes between."""
    cells = [f"{' / '.join(f'{side[key]:.{digits}f}' for side in sides):>{width}}" for key, width, digits in COLUMNS]
    cells.insert(1, f"{ratio:6.2f}")
    print(" ".join([f"{name:52}", *cells]), flush=True)


def head(rounds):
    cells = [f"{key.replace('_', ' '):>{width}}" for key, width, _ in COLUMNS]
    cells.insert(1, f"{'ratio':>6}")
    print(" ".join([f"{'krarup / twemproxy, medians of ' + str(rounds) + ' rounds':52}", *cells]))


def medians(runs):
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def ratio(runs, others):
    """The median over rounds of the ratio of CPU time per request."""
    return statistics.median(a["proxy_us"] / b["proxy_us"] for a, b in zip(runs, others))


def written(path, everything, rate):
    """The medians as a table: what a request costs each side and how many there were, or, at a given rate, how long they took."""
    columns = {"p50_ms": ("p50 (ms)", 3), "p99_ms": ("p99 (ms)", 2), "p999_ms": ("p99.9 (ms)", 2)}
    if not rate:
        columns = {"proxy_us": ("processor (µs)", 2), "rate": ("requests/s", 0)}
    sides = list(dict.fromkeys(side for each in everything.values() for side in each["runs"]))
    ratios = [] if rate else [f"krarup / {side}" for side in sides if side != "krarup"]
    rows = [["", *ratios, *(f"{side}: {title}" for title, _ in columns.values() for side in sides)]]
    for name, each in everything.items():
        runs = each["runs"]
        cells = [f"{ratio(runs['krarup'], runs[side]):.2f}" if side in runs else "" for side in sides if side != "krarup"] if ratios else []
        for key, (_, digits) in columns.items():
            cells += [f"{medians(runs[side])[key]:,.{digits}f}" if side in runs else "" for side in sides]
        rows.append([name, *cells])
    write_csv(path, rows)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", default=str(ROOT / "target/release/krarup"))
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=float, default=2.0)
    arguments.add_argument("--only", default="", help="only workloads that contain this text")
    arguments.add_argument("--json", help="write every figure here")
    arguments.add_argument("--csv", help="write the medians here, as docs/comparisons has them: costs and rates of a closed loop, response times with --rate")
    arguments.add_argument("--threads", type=int, metavar="W", help="also measure our engine of threads with W workers")
    arguments.add_argument("--memcached-proxy", metavar="PROGRAM", help="also measure this memcached's own proxy")
    arguments.add_argument("--rate", type=float, metavar="N", help="N requests a second (paced, however slow the answers) instead of a closed loop")
    arguments.add_argument("--floor", action="store_true", help="also measure a server that answers by itself, and a proxy that understands nothing: what the system calls cost")
    options = arguments.parse_args()
    everything = {}
    open_loop = f" --rate {options.rate:.0f}" if options.rate else ""
    head(options.rounds)
    for name, count, flags in WORKLOADS:
        if options.only not in name:
            continue
        others = ["threads"] * bool(options.threads) + ["memcached"] * bool(options.memcached_proxy) + ["floor"] * options.floor
        others += ["multiplexer"] * (options.floor and count == 1)
        runs = {side: [] for side in ["krarup", "twemproxy", *others]}
        with tempfile.TemporaryDirectory() as folder:
            # memcached gives up root before it reads its file.
            os.chmod(folder, 0o755)
            stations = []
            try:
                # Each proxy has its own servers: their copies and shards of the data differ.
                backends = {side: [memcached() for _ in range(count)] for side in runs}
                stations += [server for servers in backends.values() for server in servers]
                sides = {
                    "krarup": krarup_proxy(options.binary, backends["krarup"]),
                    "twemproxy": twemproxy(backends["twemproxy"], folder),
                }
                if options.threads:
                    flags_of_ours = ["--engine", "threads", "--workers", str(options.threads)]
                    sides["threads"] = krarup_proxy(options.binary, backends["threads"], flags_of_ours)
                if options.memcached_proxy:
                    sides["memcached"] = memcached_proxy(
                        options.memcached_proxy, backends["memcached"], "replicated" in name, folder
                    )
                if options.floor:
                    sides["floor"] = cache(options.binary)
                    if count == 1:
                        sides["multiplexer"] = multiplexer(options.binary, backends["multiplexer"])
                stations += sides.values()
                for proxy in sides.values():
                    load(options.binary, proxy.port, flags, ["--populate-only"])
                for _ in range(options.rounds):
                    for side, proxy in sides.items():
                        runs[side].append(measure(options.binary, proxy, backends[side], flags + open_loop, options.seconds))
            finally:
                for station in reversed(stations):
                    station.stop()
        against = {side: ratio(runs[side], runs["twemproxy"]) for side in runs}
        row(name, against["krarup"], [medians(runs["krarup"]), medians(runs["twemproxy"])])
        for side in others:
            row(f"  {side}", against[side], [medians(runs[side])])
        everything[name] = {"runs": runs, "ratio": against["krarup"]}
    if options.csv:
        written(options.csv, everything, options.rate)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
