#!/usr/bin/env python3
"""CPU time per request of krarup proxy, twemproxy and others, measured side by side in one run.

Each stands before a memcached of its own, in turn, round after round, under the same load (krarup load, closed
loop). CPU time is the scheduler's own account of the proxy process (/proc/PID/task/*/schedstat), so what load
generator and servers take does not count. twemproxy runs with -v 4, which is fairest to it: at its default it
makes a log line of every request and throws it away. HAProxy (--haproxy) does not read what it carries: it is
what a proxy of plain TCP costs, which has a connection to the server for each of a client's.

With --loops each has a processor of its own for each of its event loops, servers and load have the rest, and connections are so many a loop.

Then each is sent half of the requests that the slowest of them did in the closed loop, paced, so that response times
are those at equal load.

    cargo build --release && bench/proxies.py [--rounds 5] [--seconds 2] [--json FILE]

Needs memcached and nutcracker (Debian's packages memcached and nutcracker), and openssl for the certificate.
"""

import argparse
import atexit
import contextlib
import csv
import json
import os
import pathlib
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

# A signal would end Python at once, and leave what was started running.
for number in (signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_DFL:
        signal.signal(number, lambda *_: sys.exit(1))

# name, servers, flags of the load generator
WORKLOADS = [
    ("64 B, 1:10, 1 connection", 1, "-c 1 --ratio 1:10 -d 64"),
    ("64 B, 1:10, 2 connections", 1, "-c 2 --ratio 1:10 -d 64"),
    ("64 B, 1:10, 32 connections", 1, "-c 32 --ratio 1:10 -d 64"),
    ("64 B, 1:10, 96 connections", 1, "-c 96 --ratio 1:10 -d 64"),
    ("64 B, 1:10, 192 connections", 1, "-c 192 --ratio 1:10 -d 64"),
    ("64 B, 1:10, 32 connections, 10,000 idle beside", 1, "-c 32 --ratio 1:10 -d 64"),
    ("64 B, 1:10, 32 connections with TLS", 1, "-c 32 --ratio 1:10 -d 64"),
    ("4096 B GET, 96 connections", 1, "-c 96 --ratio 0:1 -d 4096"),
    ("4096 B SET, 96 connections", 1, "-c 96 --ratio 1:0 -d 4096"),
    ("65536 B GET, 32 connections", 1, "-c 32 --ratio 0:1 -d 65536 --keys 1000"),
    ("65536 B SET, 32 connections", 1, "-c 32 --ratio 1:0 -d 65536 --keys 1000"),
    ("4096 B GET, 32 connections with TLS", 1, "-c 32 --ratio 0:1 -d 4096"),
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


def certificate(folder):
    """A certificate for 127.0.0.1 that signs itself, and its key: the paths of both."""
    paths = pathlib.Path(folder) / "certificate.pem", pathlib.Path(folder) / "key.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE"]
    subprocess.run(words + names + ["-out", str(paths[0]), "-keyout", str(paths[1])], check=True, capture_output=True)
    for path in paths:
        path.chmod(0o644)
    return paths


def divided(loops):
    """Processors for a proxy of that many loops, and those for the rest: every second one first, because two that follow each
    other are often the halves of a core, which a virtual machine does not say."""
    allowed = sorted(os.sched_getaffinity(0))
    ours = set((allowed[::2] + allowed[1::2])[:loops])
    rest = set(allowed) - ours
    if not rest:
        sys.exit(f"error: {loops} loops leave no processor for servers and load: there are {len(allowed)}\n  hint: fewer --loops")
    return ours, rest


@contextlib.contextmanager
def on(processors):
    """What is started meanwhile runs on these processors; None: on all."""
    before = os.sched_getaffinity(0)
    if processors:
        os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def open_as_many_files_as_allowed():
    """For this process, and those that it starts."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)


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


def rotated(sides, turn):
    """The sides in the order of a round: what comes first in one round comes last in the next."""
    sides = list(sides)
    first = turn % len(sides)
    return sides[first:] + sides[:first]


def cpu_seconds(pid):
    """Processor time of a process: to the nanosecond, and where threads have ended, whose time is kept in ticks alone, to the tick."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except OSError:
            # It has ended since.
            continue
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return max(total / 1e9, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))


def ended(process, patience=10):
    """Asks a process to end, and ends it where it does not."""
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def started(command, **options):
    """A process that does not outlive this one, also where a measurement ends with an error."""
    process = subprocess.Popen(command, **options)
    atexit.register(ended, process)
    return process


class Station:
    """A process that listens within `patience` seconds, and is ended by its own handle."""

    def __init__(self, command, port, patience=5, stderr=subprocess.DEVNULL):
        self.process = started(command, stdout=subprocess.DEVNULL, stderr=stderr)
        self.port = port
        self.patience = patience
        wait_for(port, patience)

    def cpu(self):
        return cpu_seconds(self.process.pid)

    def stop(self):
        ended(self.process, 2 * self.patience)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Processes:
    """Stations side by side that count as one: clients are shared out to them."""

    def __init__(self, stack, stations):
        self.stations = [stack.enter_context(station) for station in stations]
        self.port = [station.port for station in self.stations]

    def cpu(self):
        return sum(station.cpu() for station in self.stations)


def memcached(program="memcached", threads=1):
    port = free_port()
    command = [program, "-l", "127.0.0.1", "-U", "0", "-t", str(threads), "-m", "256", "-p", str(port)]
    return Station(command + (["-u", "nobody"] if os.geteuid() == 0 else []), port)


def krarup_proxy(binary, servers, flags=(), stderr=subprocess.DEVNULL):
    port = free_port()
    names = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return Station([binary, "proxy", "--listen", f"127.0.0.1:{port}", "--servers", names, "--sharded", "true", *flags], port, stderr=stderr)


def tls_config(folder, pair):
    """The part of krarup proxy's configuration that has it speak TLS with clients."""
    path = pathlib.Path(folder) / "tls.toml"
    path.write_text(f'[edge]\ntls = {{ certificate = "{pair[0]}", key = "{pair[1]}" }}\n')
    return ["--config", str(path)]


def haproxy(servers, folder, pair, loops=1):
    """HAProxy as a proxy of plain TCP before one server; with `pair`, its clients speak TLS."""
    port = free_port()
    config = pathlib.Path(folder) / f"haproxy-{port}.cfg"
    secret = ""
    if pair:
        both = pathlib.Path(folder) / "both.pem"
        both.write_text(pair[0].read_text() + pair[1].read_text())
        secret = f" ssl crt {both}"
    lines = ["global", f"  nbthread {loops}", "  maxconn 4096", "defaults", "  mode tcp"]
    lines += [f"  timeout {kind} 60s" for kind in ("connect", "client", "server")]
    lines += ["listen cache", f"  bind 127.0.0.1:{port}{secret}", f"  server one 127.0.0.1:{servers[0].port}"]
    config.write_text("\n".join(lines) + "\n")
    return Station(["haproxy", "-db", "-f", str(config)], port)


def memcached_proxy(program, servers, replicated, folder, pair=None, loops=1):
    """memcached's own proxy, where a memcached built with it is installed (--memcached-proxy).

    Its own route library: on two processors a second thread, a thread for its servers and a hand-written route took as much
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
    command = [program, "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-t", str(loops), "-c", "16384", "-o", f"proxy_config=routelib,proxy_arg={config}"]
    if pair:
        command += ["-Z", "-o", f"ssl_chain_cert={pair[0]},ssl_key={pair[1]}"]
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
    return Station([program, "-c", str(config), "-v", "4", "-o", "/dev/null", "-s", str(free_port()), "-m", "16384"], port)


def load(binary, port, flags, extra):
    """Runs the load generator against a port, or against several, to which clients are shared out."""
    names = ",".join(f"127.0.0.1:{each}" for each in (port if isinstance(port, list) else [port]))
    words = [binary, "load", "--progress", "none", "--servers", names]
    words += [] if "--keys" in flags else ["--keys", "10000"]
    output = subprocess.run(words + flags.split() + extra, check=True, capture_output=True).stdout
    return output


def measure(binary, proxy, servers, flags, seconds, warm_up=0.0):
    """One run: microseconds of the proxy and of the servers per request, rate, percentiles of the response time without the warm-up."""
    load(binary, proxy.port, flags, ["--seconds", "0.3s"])
    before, servers_before = proxy.cpu(), sum(server.cpu() for server in servers)
    result = json.loads(load(binary, proxy.port, flags, ["--warm-up", f"{warm_up}s", "--seconds", f"{warm_up + seconds}s", "--json", "-"]))
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


# What is printed of a run, its width, and its digits. The ratio of our CPU time to theirs stands behind the first.
COLUMNS = [("proxy_us", 9, 2), ("server_us", 10, 1), ("rate", 9, 0), ("p50_ms", 8, 3), ("p99_ms", 8, 2), ("p999_ms", 8, 2)]


def busy(proxy_us, rate):
    """How many processors a proxy keeps busy."""
    return proxy_us * rate / 1e6


def row(name, ratio, medians):
    """A line of the table: the medians of a side."""
    cells = [f"{medians[key]:>{width},.{digits}f}" for key, width, digits in COLUMNS]
    cells.insert(1, f"{ratio:13.2f}" if ratio else " " * 13)
    print(" ".join([f"{name:52}", *cells]), flush=True)


def head(rounds):
    cells = [f"{key.replace('_', ' '):>{width}}" for key, width, _ in COLUMNS]
    cells.insert(1, f"{'krarup / this':>13}")
    print(" ".join([f"{'medians of ' + str(rounds) + ' rounds':52}", *cells]))


def medians(runs):
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def lowest(runs):
    """Of each figure the lowest: what else happens on the machine can only add to a response time."""
    return {key: min(run[key] for run in runs) for key in runs[0]}


def ratio(runs, others):
    """The median over rounds of the ratio of CPU time per request."""
    return statistics.median(a["proxy_us"] / b["proxy_us"] for a, b in zip(runs, others))


def tables(everything):
    """Tables: what a request costs each side and how many there were; how long requests took at equal load."""
    sides = [side for side in SIDES if any(side in each["closed"] for each in everything.values())]
    others = [side for side in sides if side != "krarup"]

    def cells(runs, figures, columns):
        return [f"{figures(runs[side])[key]:,.{digits}f}" if side in runs else "" for key, digits in columns for side in sides]

    costs = [["", *(f"krarup / {side}" for side in others), *(f"{side}: {title}" for title in ("processor (µs)", "requests/s") for side in sides)]]
    titles = ("p50 (ms)", "p99 (ms)", "p99.9 (ms)")
    times = [["", "requests/s", *(f"{side}: {title}" for title in titles for side in sides)]]
    for name, each in everything.items():
        ratios = [f"{each['ratios'][side]:.2f}" if side in each["ratios"] else "" for side in others]
        costs.append([name, *ratios, *cells(each["closed"], medians, [("proxy_us", 2), ("rate", 0)])])
        times.append([name, f"{each['offered']:,.0f}", *cells(each["paced"], lowest, [("p50_ms", 3), ("p99_ms", 2), ("p999_ms", 2)])])
    return {"proxies-cost.csv": costs, "proxies-times.csv": times}


def scaling(everything):
    """Table: each workload with more and more loops. An added loop's worth is what it added to one loop's requests per second."""
    sides = [side for side in SIDES if any(side in each["closed"] for by_loops in everything.values() for each in by_loops.values())]
    titles = ("requests/s", "an added loop's worth", "busy processors", "processor (µs)")
    rows = [["", "loops", *(f"{side}: {title}" for title in titles for side in sides), "paced at", *(f"{side}: p99 (ms)" for side in sides), *(f"{side}: p99.9 (ms)" for side in sides)]]
    for name, by_loops in everything.items():
        for loops, each in by_loops.items():
            found = {side: medians(runs) for side, runs in each["closed"].items()}
            paced = {side: lowest(runs) for side, runs in each["paced"].items()}

            def worth(side):
                alone = medians(by_loops[min(by_loops)]["closed"][side])["rate"]
                return f"{(found[side]['rate'] / alone - 1) / (loops - 1):.2f}" if loops > min(by_loops) == 1 else ""

            cells = [f"{found[side]['rate']:,.0f}" if side in found else "" for side in sides]
            cells += [worth(side) if side in found else "" for side in sides]
            cells += [f"{busy(found[side]['proxy_us'], found[side]['rate']):.1f}" if side in found else "" for side in sides]
            cells += [f"{found[side]['proxy_us']:.2f}" if side in found else "" for side in sides]
            cells += [f"{each['offered']:,.0f}"] + [f"{paced[side][key]:.2f}" if side in paced else "" for key in ("p99_ms", "p999_ms") for side in sides]
            rows.append([name, loops, *cells])
    return rows


IDLE = 10_000
# In the order of the tables.
SIDES = ["krarup", "processes", "threads", "twemproxy", "memcached", "HAProxy", "floor", "multiplexer"]


@contextlib.contextmanager
def idle_connections(port, count):
    """That many clients that ask for nothing."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        yield


def names_of_sides(name, count, options, loops):
    """Who can do this workload, of those that are asked for."""
    takes_tls, has_idle, one = "TLS" in name, "idle" in name, count == 1
    able = {
        "krarup": True,
        # It has one loop, always, as floor and multiplexer, and keeps one copy of a key.
        "twemproxy": not takes_tls and "replicated" not in name and loops in (None, 1),
        "processes": options.processes and loops and not takes_tls and not has_idle,
        "threads": options.threads and not takes_tls,
        "memcached": options.memcached_proxy,
        # Its server has a connection for each of its clients', more than both may have open.
        "HAProxy": options.haproxy and one and not has_idle,
        "floor": options.floor and not takes_tls and loops in (None, 1),
        "multiplexer": options.floor and one and not takes_tls and not has_idle and loops in (None, 1),
    }
    return [side for side in SIDES if able[side]]


def start(side, servers, name, options, folder, pair, loops):
    """The proxy of a side; with `pair`, its clients speak TLS."""
    if side == "krarup":
        return krarup_proxy(options.binary, servers, ["--threads", str(loops), *(tls_config(folder, pair) if pair else ())])
    if side == "twemproxy":
        return twemproxy(servers, folder)
    if side == "threads":
        return krarup_proxy(options.binary, servers, ["--engine", "threads", "--workers", str(options.threads)])
    if side == "memcached":
        return memcached_proxy(options.memcached_proxy, servers, "replicated" in name, folder, pair, loops)
    if side == "HAProxy":
        return haproxy(servers, folder, pair, loops)
    return cache(options.binary) if side == "floor" else multiplexer(options.binary, servers)


def apart(servers, options, processors):
    """A proxy of one loop on each of the processors."""
    for processor in sorted(processors):
        with on({processor}):
            proxy = krarup_proxy(options.binary, servers, ["--threads", "1"])
        yield proxy


def compared(name, count, flags, options, loops=None):
    """The runs of each side, in turn, round after round: in a closed loop, then at equal load. With `loops`, a proxy has a
    processor of its own for each, servers and load have the others, and there are so many connections for each loop."""
    ours, others = divided(loops) if loops else (None, None)
    if loops:
        connections = int(re.search(r"-c (\d+)", flags)[1]) * loops
        flags = re.sub(r"-c (\d+)", f"-c {connections}", flags)
        # The generator takes no more threads than it has connections.
        flags += f" --threads {min(len(others), connections)}"
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        # memcached and HAProxy may give up root before they read their files.
        os.chmod(folder, 0o755)
        pair = certificate(folder) if "TLS" in name else None
        flags += f" --tls-authorities {pair[0]}" if pair else ""
        sides, backends = {}, {}
        for side in names_of_sides(name, count, options, loops):
            # Each proxy has its own servers: their copies and shards of the data differ.
            with on(others):
                backends[side] = [stack.enter_context(memcached(threads=max(1, len(others or ()) // 2))) for _ in range(count)]
            with on(ours):
                if side == "processes":
                    sides[side] = Processes(stack, apart(backends[side], options, ours))
                else:
                    sides[side] = stack.enter_context(start(side, backends[side], name, options, folder, pair, loops or 1))
            load(options.binary, sides[side].port, flags, ["--populate-only"])

        def rounds(pace, seconds, warm_up=0.0):
            runs = {side: [] for side in sides}
            for turn in range(options.rounds):
                for side in rotated(sides, turn):
                    with idle_connections(sides[side].port, IDLE if "idle" in name else 0), on(others):
                        runs[side].append(measure(options.binary, sides[side], backends[side], flags + pace, seconds, warm_up))
            return runs

        closed = rounds("", options.seconds)
        offered = options.load * min(medians(runs)["rate"] for runs in closed.values())
        # Without the time in which connections begin.
        paced = rounds(f" --rate {offered:.0f}", 3 * options.seconds, warm_up=0.4) if options.load else {}
        ratios = {side: ratio(closed["krarup"], runs) for side, runs in closed.items() if side != "krarup"}
        return {"closed": closed, "ratios": ratios, "offered": offered, "paced": paced}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", default=str(ROOT / "target/release/krarup"))
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=float, default=2.0)
    arguments.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="only workloads that contain one of these texts")
    arguments.add_argument("--json", help="write every figure here")
    arguments.add_argument("--csv", metavar="FOLDER", help="write the tables here, as docs/comparisons has them")
    arguments.add_argument("--threads", type=int, metavar="W", help="also measure our engine of threads with W workers")
    arguments.add_argument("--memcached-proxy", metavar="PROGRAM", help="also measure this memcached's own proxy")
    arguments.add_argument("--haproxy", action="store_true", help="also measure HAProxy, where there is one server")
    arguments.add_argument("--load", type=float, default=0.5, metavar="SHARE", help="what is sent at equal load, as a share of what the slowest does in a closed loop; 0: nothing")
    arguments.add_argument("--floor", action="store_true", help="also measure a server that answers by itself, and a proxy that understands nothing: what the system calls cost")
    arguments.add_argument("--loops", type=int, nargs="+", metavar="N", help="measure with this many event loops each, one after the other; a loop has a processor of its own")
    arguments.add_argument("--processes", action="store_true", help="with --loops, also measure as many proxies of one loop each: what loops of one process have in common, these have not")
    options = arguments.parse_args()
    if options.loops and min(options.loops) < 1:
        arguments.error("--loops: at least 1")
    open_as_many_files_as_allowed()
    everything = {}
    head(options.rounds)

    def show(title, found):
        for side, runs in found["closed"].items():
            row(title if side == "krarup" else f"  {side}", found["ratios"].get(side), medians(runs))
        for side, runs in found["paced"].items():
            row(f"  {side}, {found['offered']:,.0f} requests/s", None, lowest(runs))

    for name, count, flags in WORKLOADS:
        if not any(text in name for text in options.only):
            continue
        if options.loops:
            found = everything[name] = {}
            for loops in options.loops:
                found[loops] = compared(name, count, flags, options, loops)
                show(f"{name} a loop, loops: {loops}", found[loops])
        else:
            everything[name] = compared(name, count, flags, options)
            show(name, everything[name])
        if options.csv and options.load:
            for file, rows in ({"proxies-loops.csv": scaling(everything)} if options.loops else tables(everything)).items():
                write_csv(pathlib.Path(options.csv) / file, rows)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
