#!/usr/bin/env python3
"""krarup broker beside beanstalkd and beside a pool of 20 connections with one statement per request, in one run.

Every side is driven by put, reserve, delete with 200-byte bodies over TCP, in turn, round after round, 300,000 messages waiting
(beanstalkd too). The pool is pgbench with 20 connections and prepared statements: an INSERT, an UPDATE that leases by SKIP LOCKED and
a DELETE, a commit each, without any server in between; so it is better off than a real one. fsync and synchronous_commit are on.

    cargo build --release -p krarup && cargo build --release -p krarup-broker --example drive
    bench/broker.py [--rounds 3] [--seconds 5] [--clients 10,120,1000] [--json FILE]

Needs PostgreSQL's programs; BEANSTALKD names a beanstalkd that is not on the path.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RELEASE = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"

POOL_SCHEMA = """
CREATE TABLE pool (id bigserial PRIMARY KEY, tube int NOT NULL, pri bigint NOT NULL, vt timestamptz NOT NULL DEFAULT now(), body bytea NOT NULL);
CREATE INDEX ON pool (tube, pri, id);
INSERT INTO pool (tube, pri, body) SELECT i % 100, 1024, convert_to(repeat('x', {body}), 'UTF8') FROM generate_series(1, {waiting}) i;
ANALYZE pool;
"""
POOL_ROUND = """
\\set tube random(0, 99)
INSERT INTO pool (tube, pri, body) VALUES (:tube, 1024, convert_to(repeat('x', {body}), 'UTF8'));
UPDATE pool SET vt = now() + interval '120 s' WHERE id = (SELECT id FROM pool WHERE tube = :tube AND vt <= now() ORDER BY pri, id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id \\gset
DELETE FROM pool WHERE id = :id;
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A process that listens and is ended by its own handle."""

    def __init__(self, command, port):
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.port = port
        for _ in range(1200):
            try:
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                return
            except OSError:
                time.sleep(0.05)
        sys.exit(f"error: {command[0]} does not listen")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def drive(port, clients, seconds, body, waiting=0):
    command = [RELEASE / "examples" / "drive", f"127.0.0.1:{port}", clients, seconds, body, waiting]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {done.stderr.strip()}")
    return json.loads(done.stdout)


def pgbench(folder, seconds, body):
    script = pathlib.Path(folder) / "round.sql"
    script.write_text(POOL_ROUND.format(body=body))
    program = next(iter(sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/pgbench"))), None) or shutil.which("pgbench")
    command = [program, "-h", folder, "-U", "krarup", "-n", "-M", "prepared", "-c", "20", "-j", "1", "-T", str(seconds), "-f", str(script), "postgres"]
    said = subprocess.run([str(word) for word in command], capture_output=True, text=True).stdout
    rounds = next((float(line.split()[2]) for line in said.splitlines() if line.startswith("tps")), None)
    if rounds is None:
        sys.exit("error: pgbench gave no figure")
    return {"requests_per_second": 3 * rounds, "messages_per_second": rounds}


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--rounds", type=int, default=3)
    flags.add_argument("--seconds", type=int, default=5)
    flags.add_argument("--clients", default="10,120,1000")
    flags.add_argument("--waiting", type=int, default=300_000)
    flags.add_argument("--body", type=int, default=200)
    flags.add_argument("--json")
    flags = flags.parse_args()
    beanstalkd = shutil.which(os.environ.get("BEANSTALKD", "beanstalkd"))
    krarup = str(RELEASE / "krarup")
    with tempfile.TemporaryDirectory(prefix="krarup-bench-") as folder:
        os.chmod(folder, 0o755)
        cluster = f"{folder}/cluster"
        sides = {}
        port = free_port()
        sides["krarup, PostgreSQL"] = Server([krarup, "broker", "--listen", f"127.0.0.1:{port}", "--memory", "4GiB", "--postgres-embedded", cluster], port)
        port = free_port()
        sides["krarup, memory"] = Server([krarup, "broker", "--listen", f"127.0.0.1:{port}", "--memory", "4GiB"], port)
        if beanstalkd:
            for name, more in [("beanstalkd, fsync per write", ["-f0"]), ("beanstalkd, fsync every 50 ms", ["-f50"])]:
                port = free_port()
                log = pathlib.Path(folder) / name.replace(" ", "-").replace(",", "")
                log.mkdir()
                sides[name] = Server([beanstalkd, "-l", "127.0.0.1", "-p", str(port), "-b", str(log), *more], port)
        else:
            print("beanstalkd is not there: BEANSTALKD=/path/to/beanstalkd names one", file=sys.stderr)
        schema = POOL_SCHEMA.format(body=flags.body, waiting=flags.waiting)
        subprocess.run(["psql", "-q", "-X", "-h", cluster, "-U", "krarup", "-d", "postgres", "-c", schema], check=True)
        try:
            for server in sides.values():
                drive(server.port, 1, 0, flags.body, flags.waiting)
            clients = [int(one) for one in flags.clients.split(",")]
            found = {name: {count: [] for count in clients} for name in sides}
            pool = []
            for _ in range(flags.rounds):
                for count in clients:
                    for name, server in sides.items():
                        found[name][count].append(drive(server.port, count, flags.seconds, flags.body))
                pool.append(pgbench(cluster, flags.seconds, flags.body))
        finally:
            for name in reversed(sides):
                sides[name].stop()
    base = statistics.median(one["requests_per_second"] for one in pool)
    print(f"a pool of 20, one statement per request: {base:,.0f} requests/s (median of {flags.rounds})\n")
    print("| server | clients | requests/s | over the pool | messages/s | put p50 ms | put p99 ms |\n|---|---|---|---|---|---|---|")
    for name, by_count in found.items():
        for count, runs in by_count.items():
            middle = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
            print(f"| {name} | {count} | {middle['requests_per_second']:,.0f} | {middle['requests_per_second'] / base:.2f} | {middle['messages_per_second']:,.0f} | {middle['put_p50_ms']:.2f} | {middle['put_p99_ms']:.2f} |")
    if flags.json:
        pathlib.Path(flags.json).write_text(json.dumps({"pool": pool, "servers": found}, indent=2))


if __name__ == "__main__":
    main()
