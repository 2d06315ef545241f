#!/usr/bin/env python3
"""What reads find where one of three servers is down, and once it is back and empty, by policy.

    cargo build --release -p krarup
    bench/failover.py [--keys 300] [--markdown]

Three memcached with `replicas = 2`, so that each key has two holders. Every key is stored, one server is killed, every key is read (twice, so
that a policy that changes what it does is seen), half of the keys are written and all read again; then the server comes back with nothing in it,
and every key is read once more. Needs memcached.
"""

import argparse
import os
import pathlib
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
KRARUP = os.environ.get("KRARUP") or str(
    pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "krarup"
)
POLICIES = {
    '`when_down = "error"`': "",
    '`when_down = "next"`': 'when_down = "next"\n',
    '`when_down = "next"`, `fall_back = ["miss"]`': 'when_down = "next"\nfall_back = ["miss"]\nrefill_ttl = "60s"\n',
    '`when_down = "error"`, `fall_back = ["error", "miss"]`': 'fall_back = ["error", "miss"]\nretry_budget = 1.0\nrefill_ttl = "60s"\n',
}


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def reachable(port, limit=10):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        try:
            return socket.create_connection(("127.0.0.1", port), 1)
        except OSError:
            time.sleep(0.01)
    raise SystemExit(f"error: nothing listens on port {port}")


def memcached(port):
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    started = subprocess.Popen(["memcached", *user, "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-t", "1"])
    reachable(port).close()
    return started


class Client:
    def __init__(self, port):
        self.lines = reachable(port).makefile("rwb")

    def ask(self, text):
        self.lines.write(text.encode())
        self.lines.flush()
        return self.lines.readline()

    def set(self, key):
        return self.ask(f"set {key} 0 0 1\r\nx\r\n").startswith(b"STORED")

    def get(self, key):
        line = self.ask(f"get {key}\r\n")
        if line.startswith(b"VALUE"):
            self.lines.readline(), self.lines.readline()
            return "found"
        return "missed" if line.startswith(b"END") else "error"

    def servers_up(self):
        self.ask("stats\r\n")
        up = None
        while (line := self.lines.readline()) != b"END\r\n":
            if line.startswith(b"STAT servers_up "):
                up = int(line.split()[2])
        return up

    def until_up(self, servers):
        end = time.monotonic() + 10
        while self.servers_up() != servers:
            if time.monotonic() > end:
                raise SystemExit(f"error: not {servers} servers are up")
            time.sleep(0.02)


def read(client, keys):
    counted = {"found": 0, "missed": 0, "error": 0}
    for key in keys:
        counted[client.get(key)] += 1
    return counted


def trial(policy, count):
    ports = [free_port() for _ in range(3)]
    servers = [memcached(port) for port in ports]
    address, config = free_port(), tempfile.NamedTemporaryFile("w", suffix=".toml")
    names = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
    config.write(f'listen = "127.0.0.1:{address}"\nservers = [{names}]\ndistribution = "rendezvous"\nreplicas = 2\n{policy}')
    config.flush()
    proxy = subprocess.Popen([KRARUP, "proxy", "--config", config.name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        client = Client(address)
        client.until_up(3)
        keys = [f"key{number}" for number in range(count)]
        assert all(client.set(key) for key in keys)
        servers[1].kill(), servers[1].wait()
        client.until_up(2)
        down = [read(client, keys) for _ in range(2)]
        stored = sum(client.set(key) for key in keys[: count // 2])
        written = read(client, keys)
        servers[1] = memcached(ports[1])
        client.until_up(3)
        return down[0], down[1], stored, written, read(client, keys)
    finally:
        for process in [proxy, *servers]:
            process.kill()
            process.wait()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--keys", type=int, default=300)
    options = arguments.parse_args()
    print(f"Of {options.keys} keys: found, missed, answered with an error.\n")
    print("| policy | one server down | read again | writes stored meanwhile | after the writes | it is back, empty |\n|---|---|---|---|---|---|")
    for name, policy in POLICIES.items():
        first, second, stored, written, back = trial(policy, options.keys)
        cells = [", ".join(str(counted[what]) for what in ("found", "missed", "error")) for counted in (first, second, written, back)]
        print(f"| {name} | {cells[0]} | {cells[1]} | {stored} of {options.keys // 2} | {cells[2]} | {cells[3]} |")


if __name__ == "__main__":
    main()
