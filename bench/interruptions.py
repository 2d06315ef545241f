#!/usr/bin/env python3
"""How long clients of the broker wait when the primary of a cluster that Patroni keeps is killed, and whether they wait a second time.

Two PostgreSQL with a synchronous standby, Patroni and etcd, a broker of each mode, a few clients that put, reserve and delete. After --before seconds all processes of
the primary's server end at once, and Patroni decides. Prints each time for which no client of a mode was answered for longer than --gap seconds, by seconds after the kill,
and beside it what Patroni and PostgreSQL wrote from a second before to a second after.

    cargo build -p krarup && bench/interruptions.py [--binary target/debug/krarup] [--seconds 90] [--ttl 30 --loop-wait 10 --retry-timeout 10] [--no-rewind] [--standby-too 40] [--keep FOLDER]

Needs Debian's packages postgresql, patroni and etcd-server.
"""

import argparse
import datetime
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time

from proxies import ROOT, Station, free_port

MODES = ["owned", "batch", "direct"]
# Lines of logs that say nothing of an interruption.
DULL = re.compile(r"no action\. I am|Lock owner: \S+; I am \S+$|connection (received|authenticated|authorized)|checkpoint (starting|complete)|krarup broker|could not receive data from client")


def as_postgres(command):
    """The command as a user that PostgreSQL accepts, with nothing between."""
    if os.geteuid() != 0:
        return command
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", *command]


def postgres_programs():
    """The folder of the newest PostgreSQL's programs, where Debian keeps them."""
    return sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]


class Member:
    """One PostgreSQL and its Patroni."""

    def __init__(self, name, folder, etcd, programs, flags):
        self.name, self.folder, self.programs = name, folder, programs
        self.data, self.port, rest = folder / name, free_port(), free_port()
        rewind = "false" if flags.no_rewind else "true"
        (folder / f"{name}.yml").write_text(
            f"""scope: krarup
name: {name}
restapi: {{listen: '127.0.0.1:{rest}', connect_address: '127.0.0.1:{rest}'}}
etcd3: {{host: '127.0.0.1:{etcd}'}}
bootstrap:
  dcs:
    ttl: {flags.ttl}
    loop_wait: {flags.loop_wait}
    retry_timeout: {flags.retry_timeout}
    primary_start_timeout: 0
    synchronous_mode: true
    postgresql: {{use_pg_rewind: {rewind}}}
  initdb: [{{encoding: UTF8}}, {{locale: C}}]
  pg_hba: [local all all trust, host all all 127.0.0.1/32 trust, host replication all 127.0.0.1/32 trust]
postgresql:
  listen: '127.0.0.1:{self.port}'
  connect_address: '127.0.0.1:{self.port}'
  data_dir: {self.data}
  bin_dir: {programs}
  pgpass: {folder}/{name}.pgpass
  authentication:
    superuser: {{username: krarup, password: krarup}}
    replication: {{username: replicator, password: krarup}}
    rewind: {{username: krarup, password: krarup}}
  parameters: {{unix_socket_directories: '{folder}', log_line_prefix: '%m [%p] ', log_destination: stderr, logging_collector: 'off'}}
"""
        )
        self.log = folder / f"{name}.log"
        out = self.log.open("w")
        command = as_postgres(["/usr/bin/patroni", str(folder / f"{name}.yml")])
        self.patroni = subprocess.Popen(command, stdout=out, stderr=out, cwd="/", env={**os.environ, "HOME": "/"})

    def sql(self, statement):
        command = ["psql", "-X", "-A", "-t", "-q", "-h", "127.0.0.1", "-p", str(self.port), "-U", "krarup", "-d", "postgres", "-c", statement]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PGCONNECT_TIMEOUT": "2"})
        return done.stdout.strip() if done.returncode == 0 else None

    def kill_server(self):
        subprocess.run(as_postgres([str(self.programs / "pg_ctl"), "-D", str(self.data), "-m", "immediate", "stop"]), capture_output=True, cwd="/")

    def end(self):
        # It starts nothing any more.
        self.patroni.kill()
        self.patroni.wait()
        self.kill_server()


def until(what, condition, patience=90):
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"error: {what} did not come true within {patience} s")
        time.sleep(0.2)


# What answers a request; an error answers none.
ANSWERS = (b"INSERTED", b"RESERVED", b"DELETED", b"TIMED_OUT")


def client(port, answers, over):
    """Connects, again where its connection is lost, until it is over."""
    while not over.is_set():
        try:
            converse(port, answers, over)
        except OSError:
            over.wait(0.05)


def converse(port, answers, over):
    """Puts, reserves and deletes on one connection, and notes when it was answered."""
    with socket.create_connection(("127.0.0.1", port)) as stream:
        answered = stream.makefile("rb")

        def ask(text):
            stream.sendall(text)
            line = answered.readline()
            if not line.endswith(b"\n"):
                raise ConnectionError("the broker has closed the connection")
            if line.startswith(ANSWERS):
                answers.append(time.time())
            return line

        while not over.is_set():
            ask(b"put 1 0 60 1\r\nx\r\n")
            line = ask(b"reserve-with-timeout 0\r\n")
            if line.startswith(b"RESERVED"):
                answered.readline()
                ask(b"delete " + line.split()[1] + b"\r\n")


def noted(members, begin, end):
    """What was written between two times of the wall."""
    for member in members:
        for line in member.log.read_text(errors="replace").splitlines():
            stamp = re.match(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[.,](\d+)", line)
            if not stamp or DULL.search(line):
                continue
            at = datetime.datetime.fromisoformat(stamp[1]).timestamp() + float("0." + stamp[2])
            if begin <= at <= end:
                yield at, member.name, line[stamp.end() :].strip()


def report(mode, answers, members, killed, ended, gap):
    """The interruptions of one mode; the last one may have lasted until the clients were ended."""
    # A request that was under way then may be answered later.
    times = sorted(at for at in answers if at <= ended)
    if not times:
        print(f"{mode}: no answers")
        return
    found = [(a, b) for a, b in zip(times, [*times[1:], ended]) if b - a > gap and b > killed - 1]

    def words(a, b):
        until = "on" if b == ended else f"to {b - killed:.2f} s"
        return f"none from {a - killed:.2f} s {until} after the kill"

    print(f"{mode}: {len(times):,} answers; " + (", ".join(words(a, b) for a, b in found) or "no interruption"))
    for a, b in found[1:]:
        for at, name, line in sorted(noted(members, a - 1, b + 1)):
            print(f"    {at - killed:7.2f} s  {name:4}  {line[:200]}")


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--binary", default=str(ROOT / "target/debug/krarup"))
    flags.add_argument("--seconds", type=int, default=90, help="after the kill")
    flags.add_argument("--before", type=int, default=10)
    flags.add_argument("--gap", type=float, default=0.3)
    flags.add_argument("--clients", type=int, default=3, help="of each broker")
    flags.add_argument("--ttl", type=int, default=20)
    flags.add_argument("--loop-wait", type=int, default=1)
    flags.add_argument("--retry-timeout", type=int, default=5)
    flags.add_argument("--no-rewind", action="store_true")
    flags.add_argument("--standby-too", type=float, default=0, metavar="SECONDS", help="so long after the primary its standby's server is killed, which was the primary")
    flags.add_argument("--keep", help="where the logs are kept")
    flags = flags.parse_args()
    programs = postgres_programs()
    with tempfile.TemporaryDirectory(prefix="krarup-bench-") as name:
        folder = pathlib.Path(name)
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        os.chmod(folder, 0o755)
        etcd, peer = free_port(), free_port()
        addresses = [f"http://127.0.0.1:{port}" for port in (etcd, peer)]
        command = ["/usr/bin/etcd", "--name", "krarup", "--log-level", "warn", "--unsafe-no-fsync", "--data-dir", str(folder / "etcd"), "--listen-client-urls", addresses[0]]
        command += ["--advertise-client-urls", addresses[0], "--listen-peer-urls", addresses[1], "--initial-advertise-peer-urls", addresses[1], "--initial-cluster", f"krarup={addresses[1]}"]
        started = [Station(as_postgres(command), etcd, patience=20)]
        members = []
        try:
            for name in ("db1", "db2"):
                members.append(Member(name, folder, etcd, programs, flags))
                until("there is a primary", lambda: members[0].sql("SELECT pg_is_in_recovery()") == "f")
            first, second = members
            until("the standby is synchronous", lambda: first.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1")
            run(flags, members, started)
        finally:
            if flags.keep:
                pathlib.Path(flags.keep).mkdir(parents=True, exist_ok=True)
                for member in members:
                    shutil.copy(member.log, flags.keep)
            for one in reversed(started[1:]):
                one.stop()
            for member in members:
                member.end()
            started[0].stop()


def run(flags, members, started):
    first, second = members
    over, answers = threading.Event(), {}
    threads = []
    for mode in MODES:
        first.sql(f"CREATE DATABASE {mode}")
        port = free_port()
        store = f"postgres://krarup@127.0.0.1:{first.port},127.0.0.1:{second.port}/{mode}"
        started.append(Station([flags.binary, "broker", "--listen", f"127.0.0.1:{port}", "--store", store, "--mode", mode, "--pool", "5"], port, patience=30))
        answers[mode] = []
        threads += [threading.Thread(target=client, args=(port, answers[mode], over), daemon=True) for _ in range(flags.clients)]
    for thread in threads:
        thread.start()
    time.sleep(flags.before)
    killed = time.time()
    first.kill_server()
    if flags.standby_too:
        time.sleep(flags.standby_too)
        print(f"its standby, the old primary, is killed {time.time() - killed:.2f} s after it")
        first.kill_server()
    time.sleep(max(0, flags.seconds - (time.time() - killed)))
    ended = time.time()
    over.set()
    print(f"ttl {flags.ttl}, loop_wait {flags.loop_wait}, retry_timeout {flags.retry_timeout}; the primary is killed at {datetime.datetime.fromtimestamp(killed)}")
    for at, name, line in sorted(noted(members, killed - 0.2, killed + flags.seconds)):
        if re.search(r"promot|sync|leader|rewind|Lost|demot|starting|started streaming|SIGHUP|parameter", line, re.I):
            print(f"  {at - killed:7.2f} s  {name:4}  {line[:170]}")
    for mode in MODES:
        report(mode, answers[mode], members, killed, ended, flags.gap)


if __name__ == "__main__":
    main()
