#!/usr/bin/env python3
"""Whether the broker keeps its promise when the power of the database's machine is cut.

PostgreSQL lies on a disk of its own: a file that is a block device, with ext4 on it. While clients put, reserve and delete, that file is cloned at one
instant, again and again. What a clone holds is what the disk held at that moment: nothing that the file system or PostgreSQL still had in memory. Each
clone is then mounted as after a power cut, PostgreSQL recovers, a broker starts over it, and all messages are fetched. Of each cut it is counted

    lost       put and acknowledged before it, no delete of them sent, and not there
    back       deleted and acknowledged before it, and there again
    unknown    there, and never put
    twice      handed out twice

    cargo build --release && bench/power_cuts.py [--modes owned,batch,direct] [--cuts 20] [--every 1.5] [--no-fsync]

With --no-fsync PostgreSQL waits for no disk: then messages must be lost, or this script could not see it. The disk is one that keeps what it was given
(no volatile cache). Needs root, Debian's packages postgresql and xfsprogs, and loop devices; exits with 1 if anything was counted.
"""

import argparse
import fcntl
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

from interruptions import as_postgres, postgres_programs
from proxies import ROOT, Station, free_port

# ioctl FICLONE of <linux/fs.h>: the other file's extents, at one instant.
FICLONE = 0x40049409
# Seconds for which a message is leased.
TTR = 3
COUNTED = ("lost", "back", "unknown", "twice")


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout.strip()


class Disk:
    """A file that is mounted as a disk."""

    def __init__(self, image, at):
        self.at = at
        at.mkdir(exist_ok=True)
        self.device = run("losetup", "--find", "--show", image)
        run("mount", "-o", "noatime", self.device, at)

    def eject(self):
        # A process that just ended, or one that looks at all file systems, may hold it for a moment.
        until = time.monotonic() + 60
        while True:
            try:
                run("umount", self.at)
                break
            except subprocess.CalledProcessError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
        run("losetup", "--detach", self.device)


class Postgres:
    """A PostgreSQL whose data lie on a disk and whose socket does not."""

    def __init__(self, disk, sockets, flags):
        self.data, self.sockets = disk.at / "data", sockets
        self.programs = postgres_programs()
        if not self.data.exists():
            self.data.mkdir()
            shutil.chown(self.data, "postgres", "postgres")
            self.run("initdb", "-D", self.data, "-U", "krarup", "-A", "trust", "--locale=C", "-E", "UTF8")
        # As after a boot: no process of this number is the server.
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        options = f"-c listen_addresses= -c unix_socket_directories={sockets} -c fsync={'off' if flags.no_fsync else 'on'}"
        self.run("pg_ctl", "-D", self.data, "-l", sockets / "log", "-o", options, "-w", "-t", 60, "start")

    def run(self, program, *arguments):
        command = as_postgres([str(self.programs / program), *(str(word) for word in arguments)])
        subprocess.run(command, check=True, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop(self):
        self.run("pg_ctl", "-D", self.data, "-m", "fast", "-w", "stop")


def broker(sockets, mode, flags):
    port = free_port()
    store = f"host={sockets} user=krarup dbname=postgres"
    return Station([flags.binary, "broker", "--listen", f"127.0.0.1:{port}", "--store", store, "--mode", mode, "--pool", "8"], port, patience=60)


class Client:
    """One connection, and what was asked on it and when."""

    def __init__(self, port):
        self.stream = socket.create_connection(("127.0.0.1", port))
        self.answers = self.stream.makefile("rb")
        # Of each body: when it was sent, and when it was acknowledged.
        self.puts, self.deletes, self.ids = {}, {}, {}

    def ask(self, text):
        self.stream.sendall(text)
        return self.answers.readline()

    def put(self, body):
        sent = time.monotonic()
        self.puts[body] = (sent, None)
        if self.ask(b"put 1 0 %d %d\r\n%s\r\n" % (TTR, len(body), body)).startswith(b"INSERTED"):
            self.puts[body] = (sent, time.monotonic())

    def reserve(self, seconds):
        """The number and body of a message; none: there was none."""
        words = self.ask(b"reserve-with-timeout %d\r\n" % seconds).split()
        if words[:1] != [b"RESERVED"]:
            return None
        return words[1], self.answers.readline().strip()

    def delete(self, number, body):
        sent = time.monotonic()
        self.deletes[body] = (sent, None)
        if self.ask(b"delete %s\r\n" % number).startswith(b"DELETED"):
            self.deletes[body] = (sent, time.monotonic())

    def held(self):
        """Messages that are ready, reserved or delayed."""
        size = int(self.ask(b"stats\r\n").split()[1])
        lines = self.answers.read(size + 2).decode().splitlines()
        found = dict(line.split(": ", 1) for line in lines if ": " in line)
        return sum(int(found[f"current-jobs-{state}"]) for state in ("ready", "reserved", "delayed"))


def produce(client, name, over):
    for number in range(10**9):
        if over.is_set():
            return
        client.put(b"%d-%d" % (name, number))


def work(client, over):
    while not over.is_set():
        message = client.reserve(1)
        if message:
            client.delete(*message)


def drain(client, found):
    """Fetches and deletes until there is nothing, also of what is leased."""
    while True:
        message = client.reserve(1)
        if message:
            found.append(message[1])
            client.delete(*message)
        elif client.held() == 0:
            return


def clone(image, to):
    """When the clone was begun and when it was made."""
    with image.open("rb") as source, to.open("wb") as target:
        begun = time.monotonic()
        fcntl.ioctl(target.fileno(), FICLONE, source.fileno())
        return begun, time.monotonic()


def strike(folder, mode, flags, law):
    """Load, and clones of the disk in the middle of it; what was asked, and the clones with their times."""
    image = folder / "disk"
    with image.open("wb") as file:
        file.truncate(2 << 30)
    run("mkfs.ext4", "-q", image)
    disk = Disk(image, folder / "mounted")
    over, clones = threading.Event(), []
    try:
        postgres = Postgres(disk, flags.sockets, flags)
        try:
            with broker(flags.sockets, mode, flags) as served:
                clients = [Client(served.port) for _ in range(flags.clients)]
                half = flags.clients // 2
                threads = [threading.Thread(target=produce, args=(one, number, over)) for number, one in enumerate(clients[:half])]
                # One worker fewer, so that messages wait.
                threads += [threading.Thread(target=work, args=(one, over)) for one in clients[half:-1]]
                for thread in threads:
                    thread.start()
                for number in range(flags.cuts):
                    time.sleep(flags.every * (0.5 + law.random()))
                    to = folder / f"cut-{number}"
                    clones.append((to, *clone(image, to)))
                over.set()
                for thread in threads:
                    thread.join()
        finally:
            postgres.stop()
    finally:
        disk.eject()
        image.unlink()
    puts = {body: times for one in clients for body, times in one.puts.items()}
    deletes = {body: times for one in clients for body, times in one.deletes.items()}
    return puts, deletes, clones


def fetched(folder, image, mode, flags):
    """All messages that a broker finds on a clone of the disk; none: PostgreSQL does not start."""
    disk = Disk(image, folder / "recovered")
    try:
        try:
            postgres = Postgres(disk, flags.sockets, flags)
        except subprocess.CalledProcessError:
            return None
        try:
            with broker(flags.sockets, mode, flags) as served:
                found = []
                # Requests of several clients share a commit.
                threads = [threading.Thread(target=drain, args=(Client(served.port), found)) for _ in range(24)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                return found
        finally:
            postgres.stop()
    finally:
        disk.eject()
        image.unlink()


def judged(puts, deletes, found, begun, made):
    """What is counted of one cut."""
    before = lambda when, limit: when is not None and when <= limit
    there = set(found)
    kept = {body for body, (_, acknowledged) in puts.items() if before(acknowledged, begun)}
    asked = {body for body, (sent, _) in deletes.items() if sent <= made}
    gone = {body for body, (_, acknowledged) in deletes.items() if before(acknowledged, begun)}
    known = {body for body, (sent, _) in puts.items() if sent <= made}
    return {"lost": len(kept - asked - there), "back": len(gone & there), "unknown": len(there - known), "twice": len(found) - len(there)}


def cuts(mode, folder, flags, law):
    puts, deletes, clones = strike(folder, mode, flags, law)
    total, refused, recovered = dict.fromkeys(COUNTED, 0), 0, 0
    for image, begun, made in clones:
        found = fetched(folder, image, mode, flags)
        if found is None:
            refused += 1
            continue
        recovered += len(found)
        for what, count in judged(puts, deletes, found, begun, made).items():
            total[what] += count
    acknowledged = [sum(times[1] is not None for times in all.values()) for all in (puts, deletes)]
    print(f"| {mode} | {len(clones)} | {acknowledged[0]:,} | {acknowledged[1]:,} | {recovered:,} | {refused} | " + " | ".join(str(total[what]) for what in COUNTED) + " |", flush=True)
    return refused + sum(total.values())


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--binary", default=str(ROOT / "target/release/krarup"))
    flags.add_argument("--modes", default="owned,batch,direct")
    flags.add_argument("--cuts", type=int, default=20, help="of each mode")
    flags.add_argument("--every", type=float, default=1.5, help="seconds from cut to cut, in the mean")
    flags.add_argument("--clients", type=int, default=12, help="half of them put")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--no-fsync", action="store_true", help="the disk is not waited for: messages must be lost")
    flags = flags.parse_args()
    if os.geteuid() != 0:
        sys.exit("error: only root may mount a disk")
    law, counted = random.Random(flags.seed), 0
    with tempfile.TemporaryDirectory(prefix="krarup-power-") as name:
        name = pathlib.Path(name)
        name.chmod(0o755)
        flags.sockets = name / "sockets"
        flags.sockets.mkdir()
        shutil.chown(flags.sockets, "postgres", "postgres")
        # Only some file systems clone files.
        outer = name / "outer"
        with outer.open("wb") as file:
            file.truncate(16 << 30)
        run("mkfs.xfs", "-q", "-m", "reflink=1", outer)
        disk = Disk(outer, name / "clones")
        try:
            print("| mode | cuts | puts acknowledged | deletes acknowledged | messages found | not started | " + " | ".join(COUNTED) + " |\n|---|" + "---:|" * 9)
            for mode in flags.modes.split(","):
                counted += cuts(mode, disk.at, flags, law)
        finally:
            disk.eject()
    sys.exit(counted > 0)


if __name__ == "__main__":
    main()
