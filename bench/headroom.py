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
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

from proxies import started

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Server(threading.Thread):
    """Serves get and set of any key, `threads` requests at a time over all connections.

    Each takes `service(bytes of its value)` seconds. Values have `size` bytes
    (0: every get misses). `stop_every` and `stop`: all threads stand still for `stop` seconds, about every `stop_every`, as a collector of garbage does.
    """

    host = "127.0.0.1"

    def __init__(self, service, threads=1, size=0, stop_every=0.0, stop=0.0):
        super().__init__(daemon=True)
        self.service, self.size = service, size
        self.turns = threading.Semaphore(threads)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()
        if stop:
            threading.Thread(target=self.stand_still, args=(threads, stop_every, stop), daemon=True).start()

    def run(self):
        while True:
            connection, _ = self.listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def stand_still(self, threads, every, length):
        law = random.Random(1)
        while True:
            time.sleep(law.uniform(0.75 * every, 1.25 * every))
            for _ in range(threads):
                self.turns.acquire()
            time.sleep(length)
            self.turns.release(threads)

    def serve(self, connection):
        lines = connection.makefile("rb")
        while line := lines.readline():
            words = line.split()
            size = self.size
            if words[0] == b"version":
                connection.sendall(b"VERSION 1.6.18\r\n")
                continue
            if words[0] == b"set":
                lines.read(int(words[4]) + 2)
                answer = b"STORED\r\n"
            elif size:
                answer = b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (words[1], size, b"x" * size)
            else:
                answer = b"END\r\n"
            with self.turns:
                # A sleep ends about 60 us late.
                time.sleep(max(0.0, self.service(size) - 60e-6))
            connection.sendall(answer)


class Memcached:
    """A memcached in a control group of its own that gives it `quota` seconds of processor time in each `period`, behind a link of `link` bits a second, or so far away that answers come `delay` seconds later."""

    def __init__(self, quota=None, period=0.1, link=None, delay=None):
        self.port = free_port()
        self.group = Group(quota, period) if quota else None
        self.link = Link(link, delay) if link or delay else None
        self.host = self.link.host if self.link else "127.0.0.1"
        inside = self.link.inside if self.link else []
        self.process = started([*inside, "memcached", "-p", str(self.port), "-l", self.host, "-U", "0", "-t", "1", "-u", "nobody"],
                               preexec_fn=self.group.enter if self.group else None)
        wait_for(self.port, self.host)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        if self.group:
            self.group.remove()
        if self.link:
            self.link.remove()


class Link:
    """A network of its own for one server, whose answers leave it at `rate` bits a second (a token bucket of 6,000 bytes), or are kept for `delay` seconds (krarup's own delay line)."""

    def __init__(self, rate, delay):
        number = free_port()
        self.name, self.host = f"krarup-{number}", f"10.{200 + number % 50}.{number // 256 % 256}.2"
        self.inside = ["ip", "netns", "exec", self.name]
        ours, theirs = f"kr{number}a", f"kr{number}b"
        self.line, self.ours = None, f"{self.name}-ours" if delay else None
        call("ip", "netns", "add", self.name)
        if delay:
            theirs = "eth0"
            call("ip", "netns", "attach", self.ours, os.getpid())
            self.line = started([Link.binary, "agent", "delay", str(round(1e9 * delay)), self.name, self.ours, ours], stderr=subprocess.PIPE)
            self.line.stderr.readline()
        else:
            call("ip", "link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", self.name)
            call(*self.inside, "tc", "qdisc", "add", "dev", theirs, "root", "tbf", "rate", f"{rate}bit", "burst", "6000", "latency", "500ms")
        call("ip", "address", "add", self.host[:-1] + "1/30", "dev", ours)
        call("ip", "link", "set", ours, "up")
        call(*self.inside, "ip", "address", "add", self.host + "/30", "dev", theirs)
        call(*self.inside, "ip", "link", "set", theirs, "up")

    def remove(self):
        if self.line:
            self.line.kill()
            self.line.wait()
            call("ip", "netns", "delete", self.ours)
        call("ip", "netns", "delete", self.name)


def call(*command):
    subprocess.run([str(word) for word in command], check=True)


class Postgres:
    """A PostgreSQL that is `delay` seconds away: what it does itself is little beside that, so that the load and the broker do not take its processors."""

    def __init__(self, delay):
        self.port, self.link, self.folder = free_port(), Link(None, delay), tempfile.mkdtemp()
        self.host = self.link.host
        programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        shutil.chown(self.folder, "postgres")
        own = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
        subprocess.run([*own, programs / "initdb", "-D", self.folder + "/data", "-A", "trust"], check=True, stdout=subprocess.DEVNULL)
        with open(self.folder + "/data/pg_hba.conf", "a") as rules:
            rules.write(f"host all all {self.host}/30 trust\n")
        flags = ["-D", self.folder + "/data", "-p", str(self.port), "-c", f"listen_addresses={self.host}", "-c", f"unix_socket_directories={self.folder}"]
        self.process = started([*self.link.inside, *own, programs / "postgres", *flags], stderr=subprocess.DEVNULL)
        wait_for(self.port, self.host)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.link.remove()
        shutil.rmtree(self.folder)


class Group:
    """A control group with a quota of processor time (version 1 where it is mounted, else version 2)."""

    def __init__(self, quota, period):
        first = pathlib.Path("/sys/fs/cgroup/cpu")
        self.path = (first if first.is_dir() else pathlib.Path("/sys/fs/cgroup")) / f"krarup-bench-{free_port()}"
        self.path.mkdir()
        quota, period = round(1e6 * quota), round(1e6 * period)
        if first.is_dir():
            (self.path / "cpu.cfs_period_us").write_text(str(period))
            (self.path / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (self.path / "cpu.max").write_text(f"{quota} {period}")

    def enter(self):
        """What a process does before it becomes the program: a program reads its quota when it begins."""
        name = "tasks" if (self.path / "tasks").exists() else "cgroup.procs"
        (self.path / name).write_text("0")

    def remove(self):
        for _ in range(100):
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(0.05)


def constant(seconds):
    return lambda size: seconds


def exponential(seconds, seed):
    law = random.Random(seed)
    return lambda size: law.expovariate(1 / seconds)


def by_bytes(seconds, seconds_per_byte):
    return lambda size: seconds + seconds_per_byte * size


def grow(servers, done):
    """Values grow from 1,000 to 4,000 bytes while `done` goes from 0 to a half, then they stay."""
    for server in servers:
        server.size = round(1000 + 3000 * min(1.0, 2 * done))


class Scenario:
    """What a run has: its servers, lines of the proxy's configuration, the resource that is full first.

    `load`: flags of every load. `traffic`: flags that replace the rate of the traffic before the target. `change`: called with servers and how much of
    the traffic is over. `quota`: processor seconds in each period of 10 ms that the proxy has. `busy`: programs that only compute beside it. `broker`: flags of a broker that
    is measured instead of a proxy. `link`: the rate of the servers' links that its configuration tells. `values`: bytes of the values that are stored first."""

    def __init__(self, servers, first, lines="", load=(), traffic=(), change=None, quota=None, busy=0, broker=None, link=None, values=None):
        self.servers, self.first, self.lines, self.load, self.traffic = servers, first, lines, [*load] if broker is not None else [*GETS, *load], traffic
        self.change, self.quota, self.busy, self.broker, self.link, self.values = change, quota, busy, broker, link, values


GETS = ["--ratio", "0:1", "--keys", "1000"]
JOBS = ["--mix", "put=1,reserve=1", "--tubes", "10"]
RING = 'distribution = "ketama"'
SCENARIOS = {
    "constant": Scenario(lambda: [Server(constant(1e-3))], "server"),
    "exponential": Scenario(lambda: [Server(exponential(1e-3, 1))], "server"),
    "slow": Scenario(lambda: [Server(constant(1e-3)), Server(constant(2.5e-3)), Server(constant(1e-3))], "server", RING),
    "workers": Scenario(lambda: [Memcached(delay=4e-3)], "workers", "workers = 8"),
    "threads": Scenario(lambda: [Server(constant(3e-3), threads=4)], "server", "server_connections = 4"),
    "stops": Scenario(lambda: [Server(constant(1e-3), stop_every=2.0, stop=0.2)], "server"),
    "hot key": Scenario(lambda: [Server(constant(1e-3)) for _ in range(3)], "server", RING, load=["--key-law", "hot:1:0.4"]),
    "growth": Scenario(lambda: [Server(by_bytes(0.5e-3, 0.25e-6), size=4000)], "server", change=grow),
    "clients": Scenario(lambda: [Server(constant(1e-3))], "server", traffic=["-c", 4, "--think", "exp:6ms"]),
    "loop": Scenario(lambda: [Memcached()], "loop", quota=1.5e-3),
    "quota": Scenario(lambda: [Memcached(quota=10e-3)], "server"),
    "link": Scenario(lambda: [Memcached(link=60_000_000)], "link", link=60_000_000, values=4000),
    "link not told": Scenario(lambda: [Memcached(link=60_000_000)], "link", values=4000),
    "broker memory": Scenario(list, "loop", load=JOBS, broker=[]),
    "broker owned": Scenario(list, "server", load=JOBS, broker=["--postgres-temporary", "--mode", "owned"]),
    "broker batch": Scenario(list, "server", load=JOBS, broker=["--postgres-temporary", "--mode", "batch"]),
    "far owned": Scenario(lambda: [Postgres(4e-3)], "server", load=JOBS, broker=["--mode", "owned"]),
    "far batch": Scenario(lambda: [Postgres(4e-3)], "server", load=JOBS, broker=["--mode", "batch"]),
    "far direct": Scenario(lambda: [Postgres(4e-3)], "server", load=JOBS, broker=["--mode", "direct", "--pool", "4"]),
    "broker direct": Scenario(list, "server", load=JOBS, broker=["--postgres-temporary", "--mode", "direct", "--pool", "4"]),
    "others": Scenario(lambda: [Server(exponential(1e-3, 1))], "silent", busy=4),
}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def wait_for(port, host="127.0.0.1"):
    for _ in range(200):
        try:
            socket.create_connection((host, port)).close()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"nothing listens at port {port} after ten seconds")


def load(binary, port, seconds, *flags):
    out = subprocess.run([binary, "load", "-s", f"127.0.0.1:{port}", *([] if "-d" in flags else ["-d", "32"]), "--seconds", str(seconds), "--json", "-", *map(str, flags)], capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"krarup load {' '.join(map(str, flags))}: {out.stderr}")
    return json.loads(out.stdout)


class Program:
    """A proxy before servers, or a broker, with an admin address."""

    def __init__(self, binary, servers, scenario):
        self.port, self.admin = free_port(), free_port()
        self.folder = tempfile.TemporaryDirectory()
        if scenario.broker is None:
            link = f', link = "{scenario.link}bit/s"' if scenario.link else ""
            known = ", ".join(f'{{ address = "{server.host}:{server.port}"{link} }}' for server in servers)
            configuration = pathlib.Path(self.folder.name) / "proxy.toml"
            configuration.write_text(f"servers = [{known}]\n{scenario.lines}\n")
            command = ["proxy", "--config", configuration]
        else:
            command = ["broker", *scenario.broker]
            command += [f"--store=postgres://postgres@{server.host}:{server.port}/postgres" for server in servers]
        self.group = Group(scenario.quota, 10e-3) if scenario.quota else None
        self.process = started([binary, *command, "--listen", f"127.0.0.1:{self.port}", "--admin", f"127.0.0.1:{self.admin}"],
                               stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=self.group.enter if self.group else None)
        wait_for(self.admin)
        wait_for(self.port)

    def headroom(self, target):
        query = urllib.parse.urlencode({"target": target})
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/headroom?{query}") as answer:
            return json.load(answer)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()
        if self.group:
            self.group.remove()


def p99(result):
    return result["overall"]["response_time"]["p99"]


def requests(program):
    """Requests that a broker has answered."""
    with urllib.request.urlopen(f"http://127.0.0.1:{program.admin}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("krarup_broker_requests_total"))


def fill(binary, program, scenario):
    """Messages for those who reserve, so that they need not wait for a put; values for those who get."""
    if scenario.values is not None:
        load(binary, program.port, 3, "-c", 16, "--keys", 1000, "--ratio", "1:0", "-d", scenario.values)
    if scenario.broker is not None:
        load(binary, program.port, 3, "-c", 64, "--tubes", 10, "--mix", "put=1")


def full_rate(binary, servers, scenario):
    """What it does for clients that ask again at once: commands of the load a second, and requests (a message that is reserved is deleted, too)."""
    program = Program(binary, servers, scenario)
    try:
        fill(binary, program, scenario)
        before = requests(program) if scenario.broker is not None else 0
        operations = load(binary, program.port, 6, "-c", 64, *scenario.load)["operations"]
        commands = sum(one["throughput"] for name, one in operations.items() if name != "delete")
        return commands, (requests(program) - before) / 6 if scenario.broker is not None else commands
    finally:
        program.stop()


def traffic(program, scenario, servers, full, arguments):
    """Down and up again between a tenth and a half of what it can do; gives the target that breaks at about three quarters of the whole."""
    part = arguments.seconds // 4
    if scenario.change:
        start = time.monotonic()
        threading.Thread(target=lambda: [(scenario.change(servers, (time.monotonic() - start) / (4 * part)), time.sleep(0.2)) for _ in range(20 * part)]).start()
    ramps = ",".join(f"{full * a:.0f}-{full * b:.0f}x{part}s" for a, b in [(0.1, 0.5), (0.5, 0.1)] * 2)
    load(arguments.binary, program.port, 4 * part, *scenario.load, *(scenario.traffic or ["-c", 64, "--rate", ramps]))
    held = scenario.traffic or ["-c", 64, "--rate", f"{0.75 * full:.0f}"]
    return p99(load(arguments.binary, program.port, 20, *scenario.load, *held))


def run(name, arguments):
    scenario, Link.binary = SCENARIOS[name], arguments.binary
    # The same servers for both proxies: a ring hangs on their addresses.
    servers = scenario.servers()
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(scenario.busy)]
    try:
        commands, full = full_rate(arguments.binary, servers, scenario)
        program = Program(arguments.binary, servers, scenario)
        try:
            # What was filled for the measurement before lasts, but for a broker that keeps nothing. A burst of puts would be a part of the traffic.
            if scenario.broker is None or not servers:
                fill(arguments.binary, program, scenario)
            target = traffic(program, scenario, servers, commands, arguments)
            answer = program.headroom(f"p99 < {target * 1e3:.3f}ms")
        finally:
            program.stop()
    finally:
        for process in others:
            process.kill()
            process.wait()
        for server in servers:
            if not isinstance(server, Server):
                server.stop()
    row = {"scenario": name, "measured": full, "saturation": answer["saturation_per_s"], "verdict": answer["verdict"], "silent": answer["silent"],
           "bottleneck": answer["bottleneck"], "right": (answer["bottleneck"] or {}).get("resource") == scenario.first, "target": target,
           "breaks at about": None if scenario.traffic else 0.75 * full, "capacity": answer["capacity_per_s"], "check": answer["check"]}
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
        breaks = f"{row['breaks at about']:.0f}" if row["breaks at about"] else "-"
        capacity = f"{breaks}: {capacity['mean']:.0f} [{capacity['low']:.0f}, {capacity['high']:.0f}]" if capacity else "-"
        told = f"{told:.0f}" if told else "-"
        print(f"| {row['scenario']} | {row['measured']:.0f} | {told} | {error} | {capacity} | {row['verdict']} {' '.join(row['silent'])} | "
              f"{'yes' if row['right'] else 'no'} |")


if __name__ == "__main__":
    main()
