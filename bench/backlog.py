#!/usr/bin/env python3
"""What a backlog costs krarup broker: its memory with many messages waiting, all of them or their heads alone in memory, and a takeover.

    cargo build --release -p krarup
    bench/backlog.py [--messages 1000000] [--body 200] [--take 50000]

Two brokers, one after the other, in the mode owned, each with a PostgreSQL of its own: one may hold everything (--heads 1GiB), the other 32 MiB. For each: the memory
it has grown by, how fast messages are put (by put-batch) and taken (by reserve-batch and delete-batch) over one connection, and how long
another broker takes from its kill until it answers. Needs PostgreSQL's programs.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from proxies import started

ROOT = pathlib.Path(__file__).resolve().parent.parent
KRARUP = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "krarup"
TOGETHER = 100


class Broker:
    def __init__(self, store, heads):
        self.errors = tempfile.TemporaryFile("w+")
        words = [KRARUP, "broker", "--listen", "127.0.0.1:0", "--heads", heads, "--memory", "4GiB", *store]
        self.process = started(words, stdout=subprocess.DEVNULL, stderr=self.errors)
        self.said = ""

    def says(self, pattern, limit=120):
        end = time.monotonic() + limit
        while time.monotonic() < end:
            self.errors.seek(0)
            self.said = self.errors.read()
            found = re.search(pattern, self.said)
            if found:
                return found
            time.sleep(0.005)
        raise SystemExit(f"it never said {pattern}:\n{self.said}")

    def connect(self):
        self.says("listening on")
        return Client(int(self.says(r"listening on 127\.0\.0\.1:(\d+)").group(1)))

    def resident(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) / 1024

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait()


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.file = self.socket.makefile("rb", 1 << 16)

    def say(self, text):
        self.socket.sendall(text)
        return self.file.readline()

    def put(self, count, body):
        begun = time.monotonic()
        request = b"put-batch 1 0 120" + f" {len(body)}".encode() * TOGETHER + b"\r\n" + (body + b"\r\n") * TOGETHER
        for _ in range(count // TOGETHER):
            assert self.say(request) == f"INSERTED_BATCH {TOGETHER}\r\n".encode()
            for _ in range(TOGETHER):
                assert self.file.readline().startswith(b"INSERTED ")
        return count / (time.monotonic() - begun)

    def take(self, count):
        begun, last, together = time.monotonic(), 0, 60
        for _ in range(count // together):
            line = self.say(f"reserve-batch {together} 60\r\n".encode())
            ids = []
            for _ in range(int(line.split()[1])):
                ids.append(int(self.file.readline().split()[1]))
                self.file.readline()
            assert ids == sorted(ids) and ids[0] > last, "in their order"
            last = ids[-1]
            deleted = self.say(b"delete-batch " + b" ".join(str(one).encode() for one in ids) + b"\r\n")
            assert int(deleted.split()[1]) == len(ids)
        return count / (time.monotonic() - begun)


def program(name):
    found = shutil.which(name)
    return found or str(max(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}")))


class Cluster:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="krarup-backlog-"))
        self.run = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if self.run:
            shutil.chown(self.folder, "postgres")
        self.data = str(self.folder / "data")
        self.do("initdb", "-D", self.data, "-U", "krarup", "-A", "trust", "--locale=C", "-E", "UTF8")
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder} -c shared_buffers=512MB -c max_wal_size=4GB"
        self.do("pg_ctl", "-D", self.data, "-l", str(self.folder / "log"), "-o", options, "-w", "start")

    def do(self, name, *words):
        subprocess.run([*self.run, program(name), *words], check=True, stdout=subprocess.DEVNULL, cwd="/")

    def store(self):
        return ["--store", f"host={self.folder} user=krarup dbname=postgres"]

    def end(self):
        subprocess.run([*self.run, program("pg_ctl"), "-D", self.data, "-m", "immediate", "stop"], stdout=subprocess.DEVNULL, cwd="/")
        shutil.rmtree(self.folder, ignore_errors=True)


def takeover(cluster, owner, heads, how):
    """How long after the owner is gone another answers a put."""
    other = Broker(cluster.store(), heads)
    other.says("waiting: ")
    begun = time.monotonic()
    owner.process.send_signal(how)
    client = other.connect()
    assert client.say(b"put 1 0 60 1\r\nx\r\n").startswith(b"INSERTED")
    took = time.monotonic() - begun
    owner.end(signal.SIGKILL)
    return other, took


def measure(heads, arguments):
    cluster = Cluster()
    try:
        owner = Broker(cluster.store(), heads)
        client = owner.connect()
        before = owner.resident()
        put = client.put(arguments.messages, b"x" * arguments.body)
        grown = owner.resident() - before
        taken = client.take(arguments.take)
        owner, killed = takeover(cluster, owner, heads, signal.SIGKILL)
        counted = owner.says(r"\d+ messages were there, (\w+) in ([^;]+);")
        after = owner.resident()
        owner, hung = takeover(cluster, owner, heads, signal.SIGSTOP)
        owner.end()
    finally:
        cluster.end()
    print(f"--heads {heads}: {grown:.0f} MiB more with {arguments.messages} messages of {arguments.body} bytes waiting; "
          f"put {put:.0f}/s, taken {taken:.0f}/s; {killed:.2f} s after a kill another answers ({counted.group(1)} in {counted.group(2)}, {after:.0f} MiB), "
          f"{hung:.2f} s after a stop", flush=True)
    return grown, put, taken


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--body", type=int, default=200)
    parser.add_argument("--take", type=int, default=50_000)
    arguments = parser.parse_args()
    whole, part = measure("1GiB", arguments), measure("32MiB", arguments)
    print("heads alone over all: " + ", ".join(
        f"{what} {b / a:.2f}" for what, a, b in zip(("memory", "put", "taken"), whole, part)))


if __name__ == "__main__":
    main()
