#!/usr/bin/env python3
"""What krarup headroom says of a running proxy, beside what is measured afterwards.

Each scenario is a proxy before servers of known speed, written here: one thread serves the requests of all its connections in order and takes a
given time for each. Traffic whose rate goes up and down between a tenth and a half of what the servers can do runs for --seconds; then the
admin address is asked; then the proxy is filled by clients that ask again at once, and its throughput is the truth. For the
target of p99, rates around the told one are held for 20 s each, and the highest that keeps the target is the truth.

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


# name, servers, flags of the proxy, the resource that is full first
SCENARIOS = {
    "constant": (lambda: [Server(constant(1e-3))], [], "server"),
    "exponential": (lambda: [Server(exponential(1e-3, 1))], [], "server"),
    "slow": (lambda: [Server(constant(1e-3)), Server(constant(2.5e-3)), Server(constant(1e-3))], ["--distribution", "ketama"], "server"),
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
