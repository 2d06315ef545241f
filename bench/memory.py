#!/usr/bin/env python3
"""What the proxy does while its memory is full: who is answered, how long a bystander waits, and how much the process holds.

    cargo build --release -p krarup
    bench/memory.py [--memory 64MiB] [--threads 1] [--clients 200] [--seconds 5] [case ...]

One memcached and one proxy for each case. A bystander, in a process of its own, asks for a small key all the while, one request after the
other. Another does the same meanwhile at a second proxy and a second memcached that no other client uses: how long it waits is the machine's doing
and not the proxy's. Of each answer is also taken how long the proxy and its server ran until it came, which does not depend on who else wants
the processors. The cases:

    sets     clients that set values of 1 MB, one request after the other
    half     the same, and attackers that send 990,000 of 1,000,000 bytes and stop
    reads    attackers that ask for a value of 1 MB 2,000 times and read nothing
    all      sets, half and reads together

Prints a line for each: requests asked and answered, the bystander's times, and the process's memory above that when idle, as a share of
`memory`. Needs memcached.
"""

import argparse
import multiprocessing
import os
import pathlib
import re
import selectors
import socket
import statistics
import subprocess
import tempfile
import threading
import time

from proxies import cpu_seconds, ended, open_as_many_files_as_allowed, started

ROOT = pathlib.Path(__file__).resolve().parent.parent
KRARUP = os.environ.get("KRARUP") or str(
    pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "krarup"
)
VALUE = 1_000_000
HALF = 990_000


def port_of(address):
    return int(address.rsplit(":", 1)[1])


def connect(port):
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


class Started:
    def __init__(self, words):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = started(words, stdout=subprocess.DEVNULL, stderr=self.errors)

    def says(self, pattern, limit=30):
        end = time.monotonic() + limit
        while time.monotonic() < end:
            found = re.search(pattern, self.said())
            if found:
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.005)
        raise SystemExit(f"it never said {pattern}:\n{self.said()}")

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def resident(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) * 1024

    def processor_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        ended(self.process)


def bystander(port, pids, over, told):
    """Small gets, one after the other, until it is over: their times, and how long the proxy and its server ran meanwhile."""
    times = []
    try:
        sock = connect(port)
        sock.settimeout(90)
        while not over.is_set():
            before = [cpu_seconds(pid) for pid in pids]
            begun = time.monotonic()
            sock.sendall(b"get small\r\n")
            answer = b""
            while not answer.endswith(b"END\r\n"):
                more = sock.recv(4_096)
                if not more:
                    raise ConnectionError(f"closed after {answer!r}")
                answer += more
            took = time.monotonic() - begun
            times.append((took, *(cpu_seconds(pid) - was for pid, was in zip(pids, before))))
            over.wait(0.002)
        told.put((times, "" if times else "no answer"))
    except OSError as error:
        told.put((times, str(error)))


def setters(port, clients, seconds, told):
    """Clients that set one value after the other for so long; the last request of each is waited for."""
    request = [b"set large%d 0 0 %d\r\n" % (number, VALUE) + bytes(VALUE) + b"\r\n" for number in range(4)]
    poll = selectors.DefaultSelector()
    asked = answered = lost = 0
    refused = {}
    end = time.monotonic() + seconds
    state = {}
    for number in range(clients):
        sock = connect(port)
        sock.setblocking(False)
        state[sock] = [memoryview(request[number % 4]), b""]
        asked += 1
        poll.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE)
    patience = end + 75
    while state and time.monotonic() < patience:
        for key, events in poll.select(1):
            sock = key.fileobj
            one = state[sock]
            try:
                if events & selectors.EVENT_READ:
                    got = sock.recv(4_096)
                    one[1] += got
                    if not got:
                        raise ConnectionResetError
                    if one[1].endswith(b"\r\n"):
                        if one[1] == b"STORED\r\n":
                            answered += 1
                        else:
                            lost += 1
                            refused[one[1]] = refused.get(one[1], 0) + 1
                        one[1] = b""
                        if time.monotonic() >= end:
                            poll.unregister(sock)
                            del state[sock]
                            sock.close()
                            continue
                        one[0] = memoryview(request[asked % 4])
                        asked += 1
                        poll.modify(sock, selectors.EVENT_READ | selectors.EVENT_WRITE)
                elif len(one[0]):
                    one[0] = one[0][sock.send(one[0][: 256 << 10]) :]
                    if not len(one[0]):
                        poll.modify(sock, selectors.EVENT_READ)
            except (ConnectionResetError, BrokenPipeError):
                lost += 1
                poll.unregister(sock)
                del state[sock]
                sock.close()
    lost += len(state)
    told.put((asked, answered, lost, refused))


def attackers(port, count, what, ready, over):
    """Connections that hold memory and do no more, until it is over."""
    held = []
    poll = selectors.DefaultSelector()
    for _ in range(count):
        sock = connect(port)
        sock.setblocking(False)
        poll.register(sock, selectors.EVENT_WRITE, [memoryview(what)])
        held.append(sock)
    begun = time.monotonic()
    while poll.get_map() and time.monotonic() < begun + 5 and not over.is_set():
        for key, _ in poll.select(0.05):
            try:
                key.data[0] = key.data[0][key.fileobj.send(key.data[0]) :]
            except OSError:
                key.data[0] = b""
            if not len(key.data[0]):
                poll.unregister(key.fileobj)
    ready.set()
    over.wait()


def watch(proxy, over, peak):
    while not over.is_set():
        peak[0] = max(peak[0], proxy.resident())
        time.sleep(0.01)


class Pair:
    """A memcached and a proxy before it, with two keys."""

    def __init__(self, args):
        # A port that no other program is given: bound, and never listening.
        self.held = socket.socket()
        self.held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.held.bind(("127.0.0.1", 0))
        server_port = self.held.getsockname()[1]
        words = ["memcached", "-u", "nobody", "-U", "0", "-l", "127.0.0.1", "-p", str(server_port), "-m", "2048", "-t", "2", "-v"]
        self.server = Started(words)
        self.config = tempfile.NamedTemporaryFile("w", suffix=".toml")
        self.config.write(f'[edge]\nmemory = "{args.memory}"\n')
        self.config.flush()
        words = [KRARUP, "proxy", "--listen", "127.0.0.1:0", "--servers", f"127.0.0.1:{server_port}", "--config", self.config.name]
        self.proxy = Started([*words, "--threads", str(args.threads)])
        self.port = port_of(self.proxy.says(r"listening on (\S+)").group(1))
        self.proxy.says("is up")
        sock = connect(self.port)
        for name, size in ((b"small", 10), (b"large0", VALUE)):
            sock.sendall(b"set %s 0 0 %d\r\n" % (name, size) + bytes(size) + b"\r\n")
            assert sock.recv(100) == b"STORED\r\n"
        sock.close()

    def pids(self):
        return self.proxy.process.pid, self.server.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proxy.end()
        self.server.end()
        self.config.close()
        self.held.close()


def times_of(told):
    times, why = told.get()
    all_ms = [sorted(time * 1e3 for time in column) for column in zip(*times)] or [[float("nan")]] * 3
    ms, proxy, server = all_ms
    at = lambda share: ms[min(len(ms) - 1, int(share * len(ms)))]
    return f"{len(times)} answers, median {statistics.median(ms):.2f} ms, p99 {at(0.99):.1f} ms, most {ms[-1]:.1f} ms (the proxy ran {proxy[-1]:.1f} ms at most, the server {server[-1]:.1f} ms) {why}".strip()


def measure(case, args):
    with Pair(args) as pair, Pair(args) as idle_pair:
        proxy, port = pair.proxy, pair.port
        idle, cpu = proxy.resident(), proxy.processor_seconds()
        over, told, asked = multiprocessing.Event(), multiprocessing.Queue(), multiprocessing.Queue()
        control = multiprocessing.Queue()
        begun = []
        ended, peak = threading.Event(), [0]
        watcher = threading.Thread(target=watch, args=(proxy, ended, peak))
        watcher.start()
        # Python waits at its end for processes that are no daemons; these it ends.
        start = lambda target, *rest: begun.append(multiprocessing.Process(target=target, args=rest, daemon=True)) or begun[-1].start()
        start(bystander, port, pair.pids(), over, told)
        start(bystander, idle_pair.port, idle_pair.pids(), over, control)
        for name, what in (
            ("half", b"set half 0 0 %d\r\n" % VALUE + bytes(HALF)),
            ("reads", b"get large0\r\n" * 2_000),
        ):
            if case in (name, "all"):
                ready = multiprocessing.Event()
                start(attackers, port, args.attackers if name == "half" else args.readers, what, ready, over)
                ready.wait()
        sets = (0, 0, 0, {})
        if case in ("sets", "half", "all"):
            start(setters, port, args.clients, args.seconds, asked)
            sets = asked.get()
        else:
            time.sleep(args.seconds)
        over.set()
        waited, control_waited = times_of(told), times_of(control)
        for process in begun:
            process.join()
        ended.set()
        watcher.join()
        said = proxy.said()
        if args.log:
            print(said)
        cpu = proxy.processor_seconds() - cpu
    bound = size_of(args.memory)
    print(
        f"{case:6} memory {args.memory} threads {args.threads} clients {args.clients if case != 'reads' else 0}: "
        f"asked {sets[0]} answered {sets[1]} lost {sets[2]} {sets[3] or ''}\n"
        f"       bystander {waited}\n       at an idle proxy {control_waited}\n"
        f"       held {(peak[0] - idle) / bound:.2f} of memory at most; cut {cut_of(said)}; "
        f"processor {cpu:.2f} s, {cpu / max(1, sets[1]) * 1e6:.0f} us for each request answered",
        flush=True,
    )


def cut_of(said):
    return sum(int(cut) for cut in re.findall(r"any more.*?(\d+)", said))


def size_of(text):
    number, unit = re.fullmatch(r"(\d+)(MiB|GiB)", text).groups()
    return int(number) << {"MiB": 20, "GiB": 30}[unit]


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--memory", default="64MiB")
    parse.add_argument("--threads", type=int, default=1)
    parse.add_argument("--clients", type=int, default=200)
    parse.add_argument("--attackers", type=int, default=150)
    parse.add_argument("--readers", type=int, default=100)
    parse.add_argument("--seconds", type=float, default=5)
    parse.add_argument("--log", action="store_true", help="print what the proxy said")
    parse.add_argument("cases", nargs="*", default=["sets", "half", "reads", "all"])
    args = parse.parse_args()
    open_as_many_files_as_allowed()
    for case in args.cases:
        measure(case, args)


if __name__ == "__main__":
    main()
