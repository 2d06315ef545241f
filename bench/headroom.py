#!/usr/bin/env python3
"""What krarup headroom says of a running proxy, beside what is measured afterwards.

Each scenario is a proxy before servers of known speed, written here: one thread serves the requests of all its connections in order and takes a
given time for each. Another proxy before the same servers is filled first by clients that ask again at once: its throughput is the truth. Then
traffic whose rate goes up and down between a tenth and a half of that runs for --seconds, three quarters of it are held for 20 s, whose p99 is the
target that breaks there, and the admin address is asked.

    cargo build --release
    bench/headroom.py [--seconds 60] [--only constant,slow] [--binary target/release/krarup]

On a machine with other work the answer is expected to be silent; the table says so.
"""

import argparse
import json
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Server(threading.Thread):
    """Serves get and set of any key, one request at a time over all connections, each in `service()` seconds."""

    def __init__(self, service, delay=0.0):
        super().__init__(daemon=True)
        self.service, self.delay, self.turn = service, delay, threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            connection, _ = self.listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        lines = connection.makefile("rb")
        while line := lines.readline():
            words = line.split()
            if words[0] == b"version":
                connection.sendall(b"VERSION 1.6.18\r\n")
                continue
            if words[0] == b"set":
                lines.read(int(words[4]) + 2)
                answer = b"STORED\r\n"
            else:
                answer = b"END\r\n"
            with self.turn:
                time.sleep(max(0.0, self.service() - 60e-6))
            connection.sendall(answer)


def constant(seconds):
    return lambda: seconds


def exponential(seconds, seed):
    law = random.Random(seed)
    return lambda: law.expovariate(1 / seconds)


# name, servers, lines of the proxy's configuration, the resource that is full first
SCENARIOS = {
    "constant": (lambda: [Server(constant(1e-3))], "", "server"),
    "exponential": (lambda: [Server(exponential(1e-3, 1))], "", "server"),
    "slow": (lambda: [Server(constant(1e-3)), Server(constant(2.5e-3)), Server(constant(1e-3))], 'distribution = "ketama"', "server"),
}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def load(binary, port, seconds, *flags):
    out = subprocess.run([binary, "load", "-s", f"127.0.0.1:{port}", "--ratio", "0:1", "-d", "32", "--keys", "1000", "--seconds",
                          str(seconds), "--json", "-", *map(str, flags)], capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"krarup load {' '.join(map(str, flags))}: {out.stderr}")
    return json.loads(out.stdout)


class Proxy:
    """A proxy before servers, with an admin address."""

    def __init__(self, binary, servers, lines):
        self.port, self.admin = free_port(), free_port()
        addresses = ",".join(f"127.0.0.1:{server.port}" for server in servers)
        self.folder = tempfile.TemporaryDirectory()
        configuration = pathlib.Path(self.folder.name) / "proxy.toml"
        configuration.write_text(lines + "\n")
        self.process = subprocess.Popen([binary, "proxy", "--config", configuration, "--listen", f"127.0.0.1:{self.port}", "--servers", addresses, "--admin",
                                         f"127.0.0.1:{self.admin}"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/ready").read()
                return
            except OSError:
                time.sleep(0.05)
        sys.exit("the proxy is not ready after ten seconds")

    def headroom(self, target):
        query = urllib.parse.urlencode({"target": target})
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/headroom?{query}") as answer:
            return json.load(answer)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()


def p99(result):
    return result["overall"]["response_time"]["p99"]


def run(name, arguments):
    make, lines, first = SCENARIOS[name]
    # The same servers for both proxies: a ring hangs on their addresses.
    servers = make()
    proxy = Proxy(arguments.binary, servers, lines)
    try:
        full = load(arguments.binary, proxy.port, 6, "-c", 64)["overall"]["throughput"]
    finally:
        proxy.stop()
    proxy = Proxy(arguments.binary, servers, lines)
    try:
        # Down and up again between a tenth and a half of what it can do.
        part = arguments.seconds // 4
        ramps = ",".join(f"{full * a:.0f}-{full * b:.0f}x{part}s" for a, b in [(0.1, 0.5), (0.5, 0.1)] * 2)
        load(arguments.binary, proxy.port, 4 * part, "-c", 64, "--rate", ramps)
        # A target that breaks at about three quarters of the whole.
        target = p99(load(arguments.binary, proxy.port, 20, "-c", 64, "--rate", f"{0.75 * full:.0f}"))
        answer = proxy.headroom(f"p99 < {target * 1e3:.3f}ms")
    finally:
        proxy.stop()
    row = {"scenario": name, "measured": full, "saturation": answer["saturation_per_s"], "verdict": answer["verdict"], "silent": answer["silent"],
           "bottleneck": answer["bottleneck"], "right": (answer["bottleneck"] or {}).get("resource") == first, "target": target,
           "breaks at about": 0.75 * full, "capacity": answer["capacity_per_s"]}
    print(json.dumps(row), flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "target/release/krarup"))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--only", default=",".join(SCENARIOS))
    arguments = parser.parse_args()
    rows = [run(name, arguments) for name in arguments.only.split(",")]
    print("| scenario | measured full at | told | error | p99 capacity, measured and told | verdict | named |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        told, capacity = row["saturation"], row["capacity"]
        error = f"{100 * (told / row['measured'] - 1):+.0f} %" if told else "-"
        capacity = f"{row['breaks at about']:.0f}: {capacity['mean']:.0f} [{capacity['low']:.0f}, {capacity['high']:.0f}]" if capacity else "-"
        told = f"{told:.0f}" if told else "-"
        print(f"| {row['scenario']} | {row['measured']:.0f} | {told} | {error} | {capacity} | {row['verdict']} {' '.join(row['silent'])} | "
              f"{'yes' if row['right'] else 'no'} |")


if __name__ == "__main__":
    main()
