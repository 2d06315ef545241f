#!/usr/bin/env python3
"""krarup broker beside other job queues over PostgreSQL, with one contract, over one PostgreSQL, in one run.

The scenarios are those of the public benchmark (github.com/hardbyte/postgresql-job-queue-benchmarking), built anew: rate and latency with 4 to 256 workers, a held
snapshot, readers, a worker that is killed, PostgreSQL that is stopped at once and started. A job is 200 bytes; it counts as stored when its commit is acknowledged; a worker takes it, does
nothing (200 ms where something is killed) and marks it as done. Each side has a program in bench/queues, which says what it does in lines; this one counts them.

    cargo build --release -p krarup
    bench/queues.py --prepare --peers /tmp/queues-peers --pgmq pgmq.sql
    bench/queues.py --peers /tmp/queues-peers --csv docs/comparisons

--prepare installs the others into --peers (needs python3, npm, node, go and cargo); pgmq.sql is that of pgmq's repository. What cannot be had is named and left out.
Rates and waits are medians of --rounds, in which the sides take turns, each round in databases of its own; the least and the greatest stand behind them.
Needs PostgreSQL's programs and some 20 minutes of a machine that does nothing else.
"""

import argparse
import collections
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from broker import RELEASE, Cluster
from proxies import ROOT, Station, cpu_seconds, free_port, rotated, started, write_csv

HERE = ROOT / "bench" / "queues"
# name, program, mode of the broker
SIDES = [
    ("krarup, owned", "beanstalk", "owned"),
    ("krarup, batch", "beanstalk", "batch"),
    ("krarup, direct", "beanstalk", "direct"),
    ("awa", "awa", None),
    ("River", "river", None),
    ("pgmq", "pgmq", None),
    ("pg-boss", "pgboss", None),
    ("Procrastinate", "procrastinate", None),
]
VERSIONS = {"pg-boss": "12.38.0", "procrastinate": "3.10.0"}
COUNTS = [4, 16, 64, 256]
READERS = 4
# Chaos: workers, milliseconds of each job, jobs each second.
CHAOS = 16, 200, 40
SECOND = 1_000_000_000


def prepare(peers, pgmq):
    """Installs the others; whatever fails is left out afterwards."""
    peers.mkdir(parents=True, exist_ok=True)
    steps = [
        ["go", "build", "-C", HERE, "-o", peers / "queues", "."],
        [sys.executable, "-m", "venv", peers / "venv"],
        [peers / "venv/bin/pip", "install", "--quiet", f"procrastinate=={VERSIONS['procrastinate']}", "psycopg[binary,pool]"],
        ["npm", "install", "--prefix", peers, "--no-audit", "--no-fund", f"pg-boss@{VERSIONS['pg-boss']}"],
        ["cargo", "build", "--release", "--manifest-path", HERE / "awa/Cargo.toml", "--target-dir", peers / "awa"],
    ]
    for step in steps:
        words = [str(word) for word in step]
        if shutil.which(words[0]) is None or subprocess.run(words).returncode != 0:
            print(f"not done: {' '.join(words)}", file=sys.stderr)
    if pgmq:
        shutil.copy(pgmq, peers / "pgmq.sql")


def programs(peers):
    """The command of each side that can be run."""
    go, python, awa = peers / "queues", peers / "venv/bin/python", peers / "awa/release/krarup-bench-awa"
    if (peers / "node_modules").is_dir():
        # Node looks for packages beside the program.
        shutil.copy(HERE / "pgboss_side.mjs", peers)
    commands = {
        "beanstalk": ([go, "beanstalk"], [go]),
        "river": ([go, "river"], [go]),
        "pgmq": ([go, "pgmq"], [go, peers / "pgmq.sql"]),
        "procrastinate": ([python, HERE / "procrastinate_side.py"], [python]),
        "pgboss": (["node", peers / "pgboss_side.mjs"], [peers / "node_modules/pg-boss"]),
        "awa": ([awa], [awa]),
    }
    return {name: [str(word) for word in words] for name, (words, needs) in commands.items() if all(need.exists() for need in needs)}


class Queue:
    """A side before a database of its own."""

    def __init__(self, cluster, side, command, database, peers, template=None):
        self.name, _, self.mode = side
        self.command, self.cluster, self.database = command, cluster, database
        self.folder = pathlib.Path(cluster.folder).parent
        self.environment = {**os.environ, "PGMQ_SQL": str(peers / "pgmq.sql")}
        self.broker, self.next_id, self.waiting, self.rate = None, 1, 0, 0
        store = cluster.database(f"{database} TEMPLATE {template.database}" if template else database)
        if self.mode:
            port = free_port()
            listen = ["--listen", f"127.0.0.1:{port}", "--memory", "4GiB", "--store", store, "--mode", self.mode]
            self.broker_command = [str(RELEASE / "krarup"), "broker", *listen]
            self.broker = Station(self.broker_command, port, patience=60)
            self.target = f"127.0.0.1:{port}"
        else:
            self.target = f"postgres://krarup@localhost/{database}?host={cluster.folder}"
            if not template:
                self.run("setup")

    def words(self, role, *numbers):
        return [*self.command, role, self.target, *(str(number) for number in numbers)]

    def log(self):
        return open(self.folder / f"{self.database}.log", "ab")

    def run(self, role, *numbers):
        with self.log() as log:
            done = subprocess.run(self.words(role, *numbers), env=self.environment, stdout=subprocess.DEVNULL, stderr=log)
        if done.returncode != 0:
            end = (self.folder / f"{self.database}.log").read_text(errors="replace")[-2000:]
            sys.exit(f"error: {self.name}: {role} ended with {done.returncode}\n{end}")

    def fill(self, wanted):
        """Stores jobs until so many wait."""
        missing = int(wanted) - self.waiting
        if missing > 0:
            self.run("fill", self.next_id, missing)
            # As autovacuum would have done within the minute.
            subprocess.run(self.cluster.psql(self.database, "ANALYZE"), check=True)
            self.next_id, self.waiting = self.next_id + missing, self.waiting + missing

    def put(self, rate, seconds):
        """Begins to store jobs at this rate: the process, and the file of its lines."""
        path = self.folder / f"{self.database}-{self.next_id}.put"
        command = self.words("put", self.next_id, rate, seconds)
        self.next_id += int(rate * seconds)
        with self.log() as log, open(path, "wb") as out:
            return started(command, env=self.environment, stdout=out, stderr=log), path

    def kill_broker(self):
        """kill -9, and another one at once in its place."""
        self.broker.process.kill()
        self.broker.process.wait()
        self.broker = Station(self.broker_command, self.broker.port, patience=60)

    def stop(self):
        if self.broker:
            self.broker.stop()


class Worker:
    """A process with so many workers; the lines of all that were started in its place go to one file."""

    made = 0

    def __init__(self, side, workers, milliseconds=0):
        Worker.made += 1
        self.side, self.numbers = side, (workers, milliseconds)
        self.path = side.folder / f"{side.database}-{Worker.made}.work"
        self.start()

    def start(self):
        with self.side.log() as log, open(self.path, "ab") as out:
            self.process = started(self.side.words("work", *self.numbers), env=self.side.environment, stdout=out, stderr=log)

    def wait_for(self, kind, patience=60):
        """Until it has said a line of this kind; whether it has."""
        end = time.monotonic() + patience
        while time.monotonic() < end and self.process.poll() is None:
            if re.search(rb"^" + kind, self.path.read_bytes()[:100_000], re.MULTILINE):
                return True
            time.sleep(0.01)
        return False

    def cpu(self):
        return cpu_seconds(self.process.pid) + (self.side.broker.cpu() if self.side.broker else 0)

    def kill(self):
        self.process.kill()
        self.process.wait()


def lines(path):
    """Times by kind and job."""
    found = {kind: collections.defaultdict(list) for kind in "exsd"}
    for line in path.read_text().splitlines():
        words = line.split()
        # The last line of a process that was killed may be cut.
        if len(words) == 3 and words[0] in found and len(words[2]) == 19:
            found[words[0]][int(words[1])].append(int(words[2]))
    return found


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(q * len(values)))] if values else float("nan")


def begin(side, worker):
    """Until it has done a job: some begin to look for jobs only a while after they say that they have started."""
    worker.wait_for(b"r")
    side.put(1, 1)[0].wait()
    if not worker.wait_for(b"d", 120):
        told(f"{side.name}: its worker did nothing within two minutes")


def latency(side, workers, flags):
    """p50 and p99 from the moment a job is due to be stored to the moment a worker begins it, in ms, with jobs that come one by one at equal times."""
    worker = Worker(side, workers)
    begin(side, worker)
    process, path = side.put(flags.rate, flags.latency)
    code, found = process.wait(), lines(path)
    # Times of the jobs that were stored alone would look as if all had been.
    if code != 0 or found["x"]:
        sys.exit(f"error: {side.name}: put ended with {code}, and {len(found['x'])} jobs could not be stored")
    time.sleep(0.7)
    worker.kill()
    put, work = found["e"], lines(worker.path)
    waits = [(work["s"][job][0] - at[0]) / 1e6 for job, at in put.items() if job in work["s"]]
    # A side that falls behind has jobs left, which the next run would find.
    side.waiting = max(0, 1 + len(put) - len(work["d"]))
    return {"p50": quantile(waits, 0.5), "p99": quantile(waits, 0.99), "jobs": len(put), "begun": len(waits)}


def rate_between(done, begin, end):
    return sum(begin <= at < end for at in done) / ((end - begin) / SECOND)


def drain(side, workers, seconds, during=None):
    """Workers before jobs that wait: when each was done, from the first moment of which on they were counted, and the processor time of each. `during` is called when they have begun."""
    worker = Worker(side, workers)
    if not worker.wait_for(b"d"):
        worker.kill()
        return None
    begun, spent, own = time.time_ns(), side.cluster.cpu(), worker.cpu()
    if during:
        during()
    time.sleep(max(0, seconds - (time.time_ns() - begun) / SECOND))
    ended, spent, own = time.time_ns(), side.cluster.cpu() - spent, worker.cpu() - own
    worker.kill()
    done = sorted(at for times in lines(worker.path)["d"].values() for at in times)
    side.waiting = max(0, side.waiting - len(done))
    counted = [at for at in done if begun <= at < ended]
    # All were done before the time was over.
    ended = min(ended, counted[-1] + 1) if side.waiting == 0 and counted else ended
    side.rate = rate_between(done, begun, ended)
    return {"done": done, "begun": begun, "ended": ended, "rate": side.rate, "database": 1e6 * spent / len(counted), "own": 1e6 * own / len(counted)}


def spread(values, digits):
    """The median of the rounds and, where there are several, the least and the greatest."""
    middle, least, most = (f"{value:,.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
    return f"{middle} ({least}-{most})" if len(values) > 1 else middle


def rates(flags, queues, make):
    """Tables of rates and of latencies."""
    latencies, drained = collections.defaultdict(list), collections.defaultdict(list)
    for turn in range(flags.rounds):
        sides = rotated([make(queue, f"rate{turn}") for queue in queues] if turn else queues, turn)
        for workers in COUNTS:
            for side in sides:
                latencies[side.name, workers].append(latency(side, workers, flags))
        for workers in COUNTS:
            for side in sides:
                side.fill(max(10_000, 1.5 * flags.seconds * side.rate))
                drained[side.name, workers].append(drain(side, workers, flags.seconds))
                told(f"{side.name}, {workers} workers: {side.rate:,.0f} jobs/s, {latencies[side.name, workers][-1]}")
        for side in sides:
            side.stop()
    rate, waits = [["side", *(f"{count} workers: jobs/s" for count in COUNTS), "database (µs a job)", "client and broker (µs a job)"]], [["side"]]
    waits[0] += [f"{count} workers: {which} (ms)" for count in COUNTS for which in ("p50", "p99")]
    for side in queues:
        runs = [drained[side.name, count] for count in COUNTS]
        costs = runs[COUNTS.index(64)]
        rate.append([side.name, *(spread([run["rate"] for run in rounds], 0) if all(rounds) else "none" for rounds in runs)])
        rate[-1] += [f"{statistics.median(run[key] for run in costs):.0f}" if all(costs) else "" for key in ("database", "own")]
        waits.append([side.name])
        for count in COUNTS:
            rounds = latencies[side.name, count]
            kept_up = all(run["begun"] > 0.99 * run["jobs"] for run in rounds)
            waits[-1] += [spread([run[which] for run in rounds], 1) if kept_up else "fell behind" for which in ("p50", "p99")]
    return {"rate": rate, "latency": waits}


def told(line):
    print(line, file=sys.stderr, flush=True)


def big_tables(cluster, database):
    statement = "SELECT format('%I.%I', schemaname, relname) FROM pg_stat_user_tables WHERE pg_relation_size(relid) > 100000 ORDER BY pg_relation_size(relid) DESC LIMIT 3"
    return subprocess.run([*cluster.psql(database, statement), "-At"], capture_output=True, text=True, check=True).stdout.split()


def session(side, statements):
    return started(side.cluster.psql(side.database, *statements), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def drain_beside(side, seconds, after, statements, count=1):
    """64 workers before jobs that wait, and after so many seconds sessions beside them: what `drain` says, and when these began."""
    marks, sessions = [], []

    def begin_sessions():
        # What comes after is held against a rate without them.
        time.sleep(after)
        marks.append(time.time_ns())
        for _ in range(count):
            sessions.append(session(side, statements))
            time.sleep(0.1)

    run = drain(side, 64, seconds, begin_sessions) or sys.exit(f"error: {side.name} did nothing")
    for one in sessions:
        one.kill()
    return run, marks[0]


def held(flags, cluster, queues, make):
    """64 workers before jobs that wait: while a session holds a snapshot, and while others read."""
    table = [["side", "before a snapshot: jobs/s", "held: last jobs/s", "last over before", "before readers: jobs/s", f"{READERS} readers: jobs/s", "with over before"]]
    part = flags.held / 4
    for measured in queues:
        side = make(measured, "held")
        side.rate = measured.rate or 2000
        side.fill(1.3 * side.rate * (flags.held + part + 1))
        holding = f"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current(), count(*) FROM {big_tables(cluster, side.database)[0]}; SELECT pg_sleep(600)"
        run, began = drain_beside(side, flags.held + part, part, [holding])
        subprocess.run(cluster.psql("postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()"), stdout=subprocess.DEVNULL)
        first = rate_between(run["done"], run["begun"], began)
        last = rate_between(run["done"], run["ended"] - int(part * SECOND), run["ended"])
        side.fill(1.5 * side.rate * (flags.readers + 1))
        scans = "; ".join(f"SELECT count(*) FROM {name}" for name in big_tables(cluster, side.database))
        reading = f"BEGIN ISOLATION LEVEL REPEATABLE READ; {scans}; SELECT pg_sleep(0.3); {scans}; SELECT pg_sleep(0.3); COMMIT"
        run, began = drain_beside(side, flags.readers, flags.readers / 3, [reading] * 200, READERS)
        before, beside = rate_between(run["done"], run["begun"], began), rate_between(run["done"], began, run["ended"])
        side.stop()
        table.append([side.name, f"{first:,.0f}", f"{last:,.0f}", f"{last / first:.2f}", f"{before:,.0f}", f"{beside:,.0f}", f"{beside / before:.2f}"])
        told(f"held: {table[-1]}")
    return {"held": table}


def supervise(workers, ended, seconds):
    """Starts a worker that ended by itself again, a second later, and counts it."""
    end, due = time.monotonic() + seconds, {}
    while time.monotonic() < end:
        for name, worker in workers.items():
            if worker.process.poll() is not None and name not in due:
                ended[name] += 1
                due[name] = time.monotonic() + 1
            elif name in due and time.monotonic() > due[name]:
                worker.start()
                del due[name]
        time.sleep(0.05)


def chaos(flags, sides, strike):
    """All sides at once at a low rate; what became of their jobs after `strike`, which may say when there was a database again."""
    count, milliseconds, rate = CHAOS
    workers = {name: Worker(side, count, milliseconds) for name, side in sides.items()}
    for worker in workers.values():
        worker.wait_for(b"r")
    time.sleep(1)
    putting = {name: side.put(rate, flags.before + flags.after) for name, side in sides.items()}
    ended = collections.Counter()
    supervise(workers, ended, flags.before)
    ended.clear()
    struck = time.time_ns()
    back = strike(workers) or struck
    supervise(workers, ended, flags.patience)
    found = {}
    for name, worker in workers.items():
        worker.kill()
        process, path = putting[name]
        process.kill()
        process.wait()
        found[name] = outcome(lines(path), lines(worker.path), struck, back) | {"ended": ended[name]}
        told(f"{name}: {found[name]}")
    return found


def outcome(put, work, struck, back):
    """What became of the jobs: those that were stored before `struck`, and the first of those that were due after `back`."""
    stored, begun, done = put["e"], work["s"], work["d"]
    old = [job for job, at in stored.items() if at[0] < struck]
    later = [min(begun[job]) for job, at in stored.items() if at[0] >= back and job in begun]
    in_hand = [job for job in begun if min(begun[job]) < struck and not any(at < struck for at in done.get(job, []))]
    left = [job for job in stored if job not in done]
    open_then = [min(done[job]) for job in old if job in done and min(done[job]) >= struck]
    return {
        "stored": len(stored),
        "refused": len(put["x"]),
        "in hand": len(in_hand),
        "next": (min(later) - back) / SECOND if later else None,
        "old": None if set(old) & set(left) else max(0, max(open_then, default=back) - back) / SECOND,
        "lost": len(left),
        "twice": sum(len(times) > 1 for times in done.values()),
    }


def shown(value, patience):
    return f"{value:.1f}" if value is not None else f"not in {patience:.0f}"


def chaos_table(flags, found, first):
    heads = {"stored": "stored", "refused": "not stored", "in hand": "in hand", "ended": "worker ended"}
    table = [["side", *(heads[key] for key in first), "a new job begun after (s)", "all before done after (s)", "lost", "done twice"]]
    for name, run in found.items():
        table.append([name, *(f"{run[key]:,}" for key in first), shown(run["next"], flags.patience), shown(run["old"], flags.patience), run["lost"], run["twice"]])
    return table


def kill(flags, sides, make):
    running = {side[0]: make(side, "kill") for side in sides}
    brokers = {f"{side[0]}: the broker killed": make(side, "broker") for side in sides if side[2]}

    def strike(workers):
        for name in running:
            workers[name].kill()
            workers[name].start()
        for side in brokers.values():
            side.kill_broker()

    found = chaos(flags, running | brokers, strike)
    for side in (running | brokers).values():
        side.stop()
    return {"kill": chaos_table(flags, found, ["stored", "in hand"])}


def restart(flags, cluster, sides, make):
    running = {side[0]: make(side, "restart") for side in sides}

    def strike(_workers):
        begun = time.monotonic()
        cluster.run("pg_ctl", "-D", cluster.data, "-l", f"{cluster.folder}/log", "-m", "immediate", "-w", "restart")
        told(f"PostgreSQL was away for {time.monotonic() - begun:.1f} s")
        return time.time_ns()

    found = chaos(flags, running, strike)
    for side in running.values():
        side.stop()
    return {"restart": chaos_table(flags, found, ["stored", "refused", "ended"])}


def measure(flags, folder):
    commands = programs(flags.peers)
    for name, program, _ in SIDES:
        if program not in commands:
            told(f"{name} is left out: it is not in {flags.peers} (--prepare)")
    sides = [side for side in SIDES if side[1] in commands and re.search(flags.sides, side[0])]
    inside = pathlib.Path(folder) / "cluster"
    inside.mkdir()
    cluster, tables, templates = Cluster(str(inside), connections=600), {}, {}

    def make(side, part):
        side = side if isinstance(side, tuple) else next(one for one in SIDES if one[0] == side.name)
        named = {part: re.sub(r"\W+", "_", f"{side[0]}_{part}").lower() for part in (part, "empty")}
        # Tables are made once, and a job done, which awa needs a minute for.
        if not side[2] and side[0] not in templates:
            templates[side[0]] = Queue(cluster, side, commands[side[1]], named["empty"], flags.peers)
            worker = Worker(templates[side[0]], 4)
            begin(templates[side[0]], worker)
            time.sleep(1)
            worker.kill()
        return Queue(cluster, side, commands[side[1]], named[part], flags.peers, templates.get(side[0]))

    try:
        # Those with a held snapshot are sized by the rates.
        queues = [make(side, "rate") for side in sides] if {"rates", "held"} & set(flags.parts) else []
        if "rates" in flags.parts:
            tables |= rates(flags, queues, make)
        if "held" in flags.parts:
            tables |= held(flags, cluster, queues, make)
        for queue in queues:
            queue.stop()
        if "kill" in flags.parts:
            tables |= kill(flags, sides, make)
        if "restart" in flags.parts:
            tables |= restart(flags, cluster, sides, make)
    finally:
        cluster.stop()
    return tables


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--peers", type=pathlib.Path, default=pathlib.Path("/tmp/queues-peers"), metavar="FOLDER")
    flags.add_argument("--prepare", action="store_true", help="install the others there, and end")
    flags.add_argument("--pgmq", type=pathlib.Path, metavar="FILE", help="pgmq.sql of its repository, for --prepare")
    flags.add_argument("--parts", default="rates,held,kill,restart", type=lambda text: text.split(","))
    flags.add_argument("--sides", default="", metavar="PATTERN", help="those sides alone whose name it matches")
    flags.add_argument("--rate", type=float, default=100, help="jobs per second while latency is measured")
    flags.add_argument("--latency", type=float, default=3, metavar="SECONDS", help="how long that is, for each number of workers")
    flags.add_argument("--rounds", type=int, default=3, help="how often rates and waits are measured")
    flags.add_argument("--seconds", type=float, default=2, help="how long jobs that wait are worked on, for each number of workers")
    flags.add_argument("--held", type=float, default=8, metavar="SECONDS", help="how long a snapshot is held, after a quarter of that without one")
    flags.add_argument("--readers", type=float, default=5, metavar="SECONDS", help="how long the run with readers is; a third of it without them")
    flags.add_argument("--before", type=float, default=4, metavar="SECONDS", help="before something is killed")
    flags.add_argument("--after", type=float, default=20, metavar="SECONDS", help="how long jobs are stored afterwards")
    flags.add_argument("--patience", type=float, default=60, metavar="SECONDS", help="how long they may take to be done")
    flags.add_argument("--csv", type=pathlib.Path, metavar="FOLDER", help="write the tables here, as docs/comparisons has them")
    flags.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="copy logs and lines here")
    flags = flags.parse_args()
    if flags.prepare:
        return prepare(flags.peers, flags.pgmq)
    with tempfile.TemporaryDirectory(prefix="krarup-queues-") as folder:
        os.chmod(folder, 0o755)
        try:
            tables = measure(flags, folder)
        finally:
            if flags.keep:
                flags.keep.mkdir(parents=True, exist_ok=True)
                for path in [*pathlib.Path(folder).glob("*.log"), pathlib.Path(folder) / "cluster/log"]:
                    shutil.copy(path, flags.keep)
    for name, rows in tables.items():
        print("\n".join(["", *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)]))
        if flags.csv:
            write_csv(flags.csv / f"queues-{name}.csv", rows)


if __name__ == "__main__":
    main()
