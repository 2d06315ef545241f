#!/usr/bin/env python3
"""krarup broker in its three modes beside beanstalkd and beside a pool of 20 connections with one statement per request, in one run.

Every side is driven over TCP with 200-byte bodies, in turn, round after round, 300,000 messages waiting (beanstalkd too). The pool is pgbench with 20
connections, of which as many are used as there are clients, and prepared statements: an INSERT, an UPDATE that leases by SKIP LOCKED and a DELETE, a commit
each, without any server in between; so it is better off than a real one. The served pool is the same statements behind the same protocol as everybody else (the example `pool`).
Beside requests per second stands the processor time that a request takes from the server and from all of PostgreSQL's processes, which tells more on a machine that does other things, too. fsync and synchronous_commit are on. All databases are in one cluster.

    cargo build --release -p krarup && cargo build --release -p krarup-serve -p krarup-store --example drive --example pool
    bench/broker.py [--rounds 3] [--seconds 5] [--parts jobs,five,waits,held,slow] [--held 180 | --minutes 60] [--realtime] [--json FILE]

jobs: put, reserve, delete. five: send, pop, peek, peek by sender, list, which only krarup has. waits: the same where none wait. held: jobs while another session holds a snapshot, over those of a
second broker at the same time before whose database none does. slow: jobs with 1,000 clients, where each fsync and fdatasync of PostgreSQL takes --slow-disk milliseconds longer (a library made with
cc). --realtime runs everything that is measured in the scheduler's class SCHED_RR, for a machine that does other things too (root).
Needs PostgreSQL's programs; BEANSTALKD names a beanstalkd that is not on the path.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from intervals import interval
from proxies import ROOT, Station, free_port, open_as_many_files_as_allowed, rotated

RELEASE = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
MODES = ["owned", "batch", "direct"]
POOL = 20
SERVED = f"a pool of {POOL}, served over TCP"
# What goes before each command that is measured.
SCHEDULED = []

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
WAITING = {
    "jobs": "INSERT INTO krarup.message SELECT i, 't' || i / 500 % 100, 0, 1024, NULL, NULL, 0, 120, now(), NULL, NULL, 0, 0, 0, 0, 0, NULL, convert_to(repeat('x', {body}), 'UTF8') FROM generate_series(1, {waiting}) i",
    "five": "INSERT INTO krarup.message SELECT i, 't' || i % 100, 0, 0, NULL, NULL, 0, 120, now(), 'c' || i % 120, CASE WHEN i % 2 = 0 THEN 'c' || i / 2 % 120 END, 0, 0, 0, 0, 0, NULL, convert_to(repeat('x', {body}), 'UTF8') FROM generate_series(1, {waiting}) i",
}
SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
#define SLOW(name) int name(int fd) {{ static int (*real)(int); if (!real) real = dlsym(RTLD_NEXT, #name); usleep({micros}); return real(fd); }}
SLOW(fdatasync)
SLOW(fsync)
"""


def serve(command, port):
    return Station([*SCHEDULED, *command], port, patience=60)


class Cluster:
    """A PostgreSQL of our own."""

    def __init__(self, folder, slow_disk=0, connections=100):
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        self.programs = found[-1].parent if found else pathlib.Path(shutil.which("initdb")).parent
        self.folder, self.data = folder, f"{folder}/data"
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        self.run("initdb", "-D", self.data, "-U", "krarup", "-A", "trust", "--locale=C", "-E", "UTF8")
        options = f"-c listen_addresses= -c unix_socket_directories={folder} -c max_connections={connections} -c shared_buffers=1GB -c max_wal_size=8GB"
        environment = {}
        if slow_disk:
            shim = pathlib.Path(folder) / "slow.c"
            shim.write_text(SHIM.format(micros=int(slow_disk * 1000)))
            subprocess.run(["cc", "-shared", "-fPIC", "-o", shim.with_suffix(".so"), shim, "-ldl"], check=True)
            environment = {"LD_PRELOAD": str(shim.with_suffix(".so"))}
        self.run("pg_ctl", "-D", self.data, "-l", f"{folder}/log", "-o", options, "-w", "start", environment=environment, before=SCHEDULED)

    def run(self, program, *arguments, environment=None, before=()):
        command = [str(self.programs / program), *arguments]
        if environment:
            command = ["env", *(f"{key}={value}" for key, value in environment.items()), *command]
        if os.geteuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        subprocess.run([*before, *command], check=True, cwd="/", stdout=subprocess.DEVNULL)

    def psql(self, database, *statements):
        command = ["psql", "-q", "-X", "-h", self.folder, "-U", "krarup", "-d", database]
        for statement in statements:
            command += ["-c", statement]
        return command

    def database(self, name):
        subprocess.run(self.psql("postgres", f"CREATE DATABASE {name}"), check=True)
        return f"host={self.folder} user=krarup dbname={name}"

    def set(self, name, value):
        subprocess.run(self.psql("postgres", f"ALTER SYSTEM SET {name} = '{value}'", "SELECT pg_reload_conf()"), check=True, stdout=subprocess.DEVNULL)

    def stop(self):
        self.run("pg_ctl", "-D", self.data, "-m", "fast", "-w", "stop")

    def pool(self, flags):
        """Makes the table of the pool."""
        self.database("pool")
        subprocess.run(self.psql("pool", POOL_SCHEMA.format(body=flags.body, waiting=flags.waiting)), check=True)

    def cpu(self):
        """Seconds of processor time of all its processes so far, those that are over included."""
        root = pathlib.Path(self.data, "postmaster.pid").read_text().split()[0]
        total = 0
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if stat.parent.name == root:
                total += sum(int(ticks) for ticks in fields[11:15])
            elif fields[1] == root:
                total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")

    def pgbench(self, clients, seconds, body):
        script = pathlib.Path(self.folder) / "round.sql"
        script.write_text(POOL_ROUND.format(body=body))
        command = [self.programs / "pgbench", "-h", self.folder, "-U", "krarup", "-n", "-M", "prepared", "-c", str(min(clients, POOL)), "-j", "1", "-T", str(seconds), "-f", str(script), "pool"]
        before = self.cpu()
        run = subprocess.run([str(word) for word in [*SCHEDULED, *command]], capture_output=True, text=True)
        # 2: a client gave up, and the figure is that of the others.
        if run.returncode != 0:
            sys.exit(f"error: pgbench ended with {run.returncode}\n{run.stderr.strip()}")
        # Its sessions are counted with the server when they are over.
        time.sleep(0.2)
        spent = self.cpu() - before
        found = {line.split(" ")[0]: line for line in run.stdout.splitlines() if line.startswith(("tps", "number of transactions actually"))}
        if len(found) != 2:
            sys.exit("error: pgbench gave no figure")
        done = 3 * int(found["number"].split(": ")[1].split("/")[0])
        return {"requests_per_second": 3 * float(found["tps"].split()[2]), "database_us": 1e6 * spent / done}


def drive(port, clients, seconds, body, waiting=0, mix="jobs"):
    command = [*SCHEDULED, RELEASE / "examples" / "drive", f"127.0.0.1:{port}", clients, seconds, body, waiting, mix]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {done.stderr.strip()}")
    return json.loads(done.stdout)


def drive_and_account(server, cluster, clients, seconds, body):
    """The same, with the processor time that a request takes from the server and from the database."""
    before, database_before = server.cpu(), cluster.cpu()
    run = drive(server.port, clients, seconds, body)
    run["server_us"] = 1e6 * (server.cpu() - before) / run["requests"]
    run["database_us"] = 1e6 * (cluster.cpu() - database_before) / run["requests"]
    return run


def broker(mode, store):
    port = free_port()
    command = [str(RELEASE / "krarup"), "broker", "--listen", f"127.0.0.1:{port}", "--memory", "4GiB", "--store", store]
    return serve(command + ["--mode", mode] if mode else command, port)


def served_pool(cluster):
    """The pool behind the same protocol as everybody else: the example `pool`."""
    port = free_port()
    command = [str(RELEASE / "examples" / "pool"), f"127.0.0.1:{port}", f"host={cluster.folder} user=krarup dbname=pool", str(POOL)]
    return serve(command, port)


def filled(cluster, mode, name, mix, flags, waiting):
    """A broker before a database in which so many messages wait."""
    store = cluster.database(name)
    # It makes the tables.
    first = broker(mode, store)
    if mix == "five":
        drive(first.port, 1, 0, flags.body, 0, mix)
    first.stop()
    fill = WAITING[mix].format(body=flags.body, waiting=waiting)
    subprocess.run(cluster.psql(name, fill, f"UPDATE krarup.owner SET next_id = {waiting + 1}", "VACUUM ANALYZE krarup.message"), check=True)
    return broker(mode, store)


def middle(runs, key="requests_per_second"):
    return statistics.median(run[key] for run in runs)


def jobs(flags, cluster, folder):
    """put, reserve, delete at every number of clients, beside everybody."""
    sides = {f"krarup, {mode}": filled(cluster, mode, f"jobs_{mode}", "jobs", flags, flags.waiting) for mode in flags.modes}
    sides["krarup, memory"] = broker(None, "memory")
    beanstalkd = shutil.which(os.environ.get("BEANSTALKD", "beanstalkd"))
    if beanstalkd:
        for name, more in [("beanstalkd, fsync per write", "-f0"), ("beanstalkd, fsync every 50 ms", "-f50")]:
            port, log = free_port(), pathlib.Path(folder) / f"binlog{more}"
            log.mkdir()
            sides[name] = serve([beanstalkd, "-l", "127.0.0.1", "-p", str(port), "-b", str(log), more], port)
    else:
        print("beanstalkd is not there: BEANSTALKD=/path/to/beanstalkd names one", file=sys.stderr)
    for server in list(sides.values())[len(flags.modes) :]:
        drive(server.port, 1, 0, flags.body, flags.waiting)
    return beside_the_pool("put, reserve, delete", flags, cluster, sides, [int(one) for one in flags.clients.split(",")])


def slow(flags, folder):
    """The same with a thousand clients, where each commit waits longer for the disk."""
    cluster = Cluster(folder, flags.slow_disk)
    try:
        modes = [mode for mode in flags.modes if mode != "direct"]
        sides = {f"krarup, {mode}": filled(cluster, mode, f"slow_{mode}", "jobs", flags, flags.waiting) for mode in modes}
        return beside_the_pool(f"the same, fsync {flags.slow_disk} ms slower", flags, cluster, sides, [1000])
    finally:
        cluster.stop()


def beside_the_pool(title, flags, cluster, sides, clients):
    """put, reserve, delete: each side's runs, and those of the pool, by the number of clients. Ends the sides."""
    cluster.pool(flags)
    sides = {SERVED: served_pool(cluster), **sides}
    found, pool = {name: {count: [] for count in clients} for name in sides}, {count: [] for count in clients}
    try:
        for turn in range(flags.rounds):
            for count in clients:
                for name, server in rotated([(None, None), *sides.items()], turn):
                    if server is None:
                        pool[count].append(cluster.pgbench(count, flags.seconds, flags.body))
                        continue
                    found[name][count].append(drive_and_account(server, cluster, count, flags.seconds, flags.body))
    finally:
        for server in sides.values():
            server.stop()
    print(f"{title}; medians of {flags.rounds} rounds, {flags.waiting:,} waiting\n")
    with_database = {SERVED, *(f"krarup, {mode}" for mode in MODES)}
    served = found[SERVED]

    def over(runs, bases):
        return statistics.median(one["requests_per_second"] / base["requests_per_second"] for one, base in zip(runs, bases))

    print("| server | clients | requests/s | over the pool | over the served pool | server µs | database µs | put p50 ms | put p99 ms |")
    print("|---|---|---|---|---|---|---|---|---|")
    for count, runs in pool.items():
        beside = f"{over(runs, served[count]):.2f}"
        database = f"{middle(runs, 'database_us'):.0f}"
        print(f"| pgbench, {POOL} connections, no server | {count} | {middle(runs):,.0f} | 1 | {beside} | | {database} | | |")
    for name, by_count in found.items():
        for count, runs in by_count.items():
            beside = f"{over(runs, served[count]):.2f}"
            spent = [f"{middle(runs, 'server_us'):.0f}", f"{middle(runs, 'database_us'):.0f}" if name in with_database else ""]
            times = [f"{middle(runs, 'put_p50_ms'):.2f}", f"{middle(runs, 'put_p99_ms'):.2f}"]
            print("|", " | ".join([name, str(count), f"{middle(runs):,.0f}", f"{over(runs, pool[count]):.2f}", beside, *spent, *times]), "|")
    print(flush=True)
    return {"pool": pool, "servers": found}


def in_turn(sides, flags):
    """The five operations, 120 clients: each side's runs. Ends the sides."""
    found = {side: [] for side in sides}
    try:
        for turn in range(flags.rounds):
            for side, server in rotated(sides.items(), turn):
                found[side].append(drive(server.port, 120, flags.seconds, flags.body, 0, "five"))
    finally:
        for server in sides.values():
            server.stop()
    return found


def five(flags, cluster):
    """The five operations, 120 clients, each mode in turn."""
    found = in_turn({mode: filled(cluster, mode, f"five_{mode}", "five", flags, flags.waiting) for mode in flags.modes}, flags)
    print(f"send, pop, peek, peek by sender, list; 120 clients; medians of {flags.rounds} rounds\n\n| mode | requests/s | over {flags.modes[-1]} | send p99 ms |\n|---|---|---|---|")
    for mode, runs in found.items():
        over = statistics.median(one["requests_per_second"] / base["requests_per_second"] for one, base in zip(runs, found[flags.modes[-1]]))
        print(f"| {mode} | {middle(runs):,.0f} | {over:.2f} | {middle(runs, 'put_p99_ms'):.2f} |")
    print(flush=True)
    return found


def waits(flags, cluster):
    """The five operations, 120 clients, before a database in which messages wait over one that began empty, in turn, for each mode."""
    counts = (flags.waiting, 0)
    sides = {(mode, count): filled(cluster, mode, f"waits_{mode}_{count}", "five", flags, count) for mode in flags.modes for count in counts}
    found = in_turn(sides, flags)
    print(f"the five operations, 120 clients; medians of {flags.rounds} rounds; the ratio is the geometric mean of the rounds' own, with its interval of 95 %\n")
    print(f"| mode | requests/s, {flags.waiting:,} waiting | none | ratio |\n|---|---|---|---|")
    for mode in flags.modes:
        full, empty = (found[mode, count] for count in counts)
        ratio, low, high = interval(*([run["requests_per_second"] for run in runs] for runs in (empty, full)))
        print(f"| {mode} | {middle(full):,.0f} | {middle(empty):,.0f} | {ratio:.2f} ({low:.2f} to {high:.2f}) |")
    print(flush=True)
    return {f"{mode}, {count}": runs for (mode, count), runs in found.items()}


def bloat(cluster, name):
    """Dead rows of the messages' table that PostgreSQL knows of, and megabytes of the schema's tables and indexes."""
    statement = "SELECT (SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'message_row'), (SELECT sum(pg_total_relation_size(relid)) FROM pg_stat_user_tables WHERE schemaname = 'krarup')"
    said = subprocess.run([*cluster.psql(name, statement), "-At", "-F,"], capture_output=True, text=True, check=True).stdout
    dead, size = (int(word) for word in said.strip().split(","))
    return {"dead_rows": dead, "megabytes": size / 1e6}


def held(flags, cluster):
    """put, reserve, delete at 120 clients, in turn where a session holds a snapshot and where none does."""
    found = {}
    print(f"while a session holds a snapshot, for {flags.held} s; 120 clients, {flags.waiting:,} waiting; autovacuum as the tables have it, looking every {flags.naptime} s\n")
    print("| mode | minute | requests/s without | with | ratio | dead rows without | with | MB without | with |\n|---|---|---|---|---|---|---|---|---|")
    cluster.set("autovacuum_naptime", flags.naptime)
    for mode in flags.modes:
        databases = [f"{mode}_held", f"{mode}_free"]
        sides = [filled(cluster, mode, name, "jobs", flags, flags.waiting) for name in databases]
        hold = f"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM krarup.message; SELECT pg_sleep({2 * flags.held + 60})"
        holder = subprocess.Popen(cluster.psql(databases[0], hold), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            begun, pairs, told = time.monotonic(), [], 0
            while time.monotonic() - begun < flags.held or len(pairs) < 6:
                runs = [drive(server.port, 120, flags.seconds, flags.body) for server in sides]
                pairs.append([{**run, **bloat(cluster, name), "at": time.monotonic() - begun} for run, name in zip(runs, databases)])
                if int(pairs[-1][0]["at"] // 60) >= told:
                    told = int(pairs[-1][0]["at"] // 60) + 1
                    one, other = pairs[-1]
                    row = [mode, f"{one['at'] / 60:.1f}", f"{other['requests_per_second']:,.0f}", f"{one['requests_per_second']:,.0f}"]
                    row += [f"{one['requests_per_second'] / other['requests_per_second']:.2f}", f"{other['dead_rows']:,}", f"{one['dead_rows']:,}"]
                    row += [f"{other['megabytes']:,.0f}", f"{one['megabytes']:,.0f}"]
                    print("|", " | ".join(row), "|", flush=True)
        finally:
            holder.terminate()
            holder.wait()
            for server in sides:
                server.stop()
        shares = [one["requests_per_second"] / other["requests_per_second"] for one, other in pairs]
        print(f"\n{mode}: ratio {statistics.median(shares[:3]):.2f} at first, {statistics.median(shares[-3:]):.2f} at the end\n", flush=True)
        found[mode] = pairs
    return found


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--rounds", type=int, default=3)
    flags.add_argument("--seconds", type=int, default=5)
    flags.add_argument("--clients", default="10,120,1000")
    flags.add_argument("--waiting", type=int, default=300_000)
    flags.add_argument("--body", type=int, default=200)
    flags.add_argument("--parts", default="jobs,five,waits,held,slow")
    flags.add_argument("--modes", default=",".join(MODES))
    flags.add_argument("--held", type=int, default=60, metavar="SECONDS", help="how long the snapshot is held")
    flags.add_argument("--minutes", type=float, help="the same, in minutes")
    flags.add_argument("--naptime", type=int, default=60, metavar="SECONDS", help="how often autovacuum looks while a snapshot is held")
    flags.add_argument("--slow-disk", type=float, default=1, metavar="MS")
    flags.add_argument("--realtime", action="store_true")
    flags.add_argument("--json")
    flags = flags.parse_args()
    flags.modes = flags.modes.split(",")
    if flags.minutes:
        flags.held = int(60 * flags.minutes)
    # A thousand clients, here and in the broker.
    open_as_many_files_as_allowed()
    if flags.realtime:
        SCHEDULED.extend(["chrt", "-r", "1"])
    with tempfile.TemporaryDirectory(prefix="krarup-bench-") as folder:
        os.chmod(folder, 0o755)
        inside = [pathlib.Path(folder) / name for name in ("cluster", "slow")]
        for one in inside:
            one.mkdir()
        found, parts = {}, flags.parts.split(",")
        if parts != ["slow"]:
            cluster = Cluster(str(inside[0]))
            try:
                found["jobs"] = jobs(flags, cluster, folder) if "jobs" in parts else None
                found["five"] = five(flags, cluster) if "five" in parts else None
                found["waits"] = waits(flags, cluster) if "waits" in parts else None
                found["held"] = held(flags, cluster) if "held" in parts else None
            finally:
                cluster.stop()
        if "slow" in parts:
            found["slow"] = slow(flags, str(inside[1]))
    if flags.json:
        pathlib.Path(flags.json).write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
