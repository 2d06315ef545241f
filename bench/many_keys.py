#!/usr/bin/env python3
"""Processor time of krarup proxy for one get of many keys that no server has, looked for at every holder.

    cargo build --release && bench/many_keys.py [--binary BEFORE --binary AFTER]

Time that grows with the keys is the same for each of them, however many there are: the ratio of the last column to the
first is 1. One memcached plays all servers, at addresses of their own. Needs memcached.
"""

import argparse
import pathlib
import socket
import tempfile

from proxies import ROOT, Station, free_port

KEYS = [1_250, 5_000, 10_000]
POOLS = [("each of 10 servers has all", 10, ""), ("two of 100 servers have each", 100, 'distribution = "ketama"\nreplicas = 2\n')]


def per_key(binary, servers, settings, keys, folder):
    """Microseconds of processor time for one key, over a tenth of a second at least."""
    hosts = [f"127.0.0.{number + 1}" for number in range(servers)]
    port, own = free_port(), free_port()
    config = pathlib.Path(folder) / "proxy.toml"
    addresses = ", ".join(f'"{host}:{port}"' for host in hosts)
    config.write_text(f'listen = "127.0.0.1:{own}"\nservers = [{addresses}]\n{settings}fall_back = ["miss"]\ntimeout = "30s"\n')
    request = b"get " + b" ".join(b"key-%d" % key for key in range(keys)) + b"\r\n"
    with (
        Station(["memcached", "-u", "root", "-U", "0", "-l", ",".join(hosts), "-p", str(port)], port) as _,
        Station([binary, "proxy", "--config", str(config)], own) as proxy,
        socket.create_connection(("127.0.0.1", own)) as client,
    ):
        def get():
            client.sendall(request)
            reply = b""
            while not reply.endswith(b"END\r\n"):
                reply += client.recv(1 << 16)
            assert reply == b"END\r\n", reply[:100]

        get()
        before, gets = proxy.cpu(), 0
        while gets < 3 or proxy.cpu() - before < 0.1:
            get()
            gets += 1
        return (proxy.cpu() - before) / gets / keys * 1e6


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", action="append", help="a build; several are measured in turn [target/release/krarup]")
    binaries = arguments.parse_args().binary or [str(ROOT / "target/release/krarup")]
    print("| build | pool | " + " | ".join(f"{keys:,} keys, µs each" for keys in KEYS) + " | last over first |")
    print("|---|---|" + "---:|" * (len(KEYS) + 1))
    with tempfile.TemporaryDirectory() as folder:
        for name, servers, settings in POOLS:
            for binary in binaries:
                times = [per_key(binary, servers, settings, keys, folder) for keys in KEYS]
                row = " | ".join(f"{time:.2f}" for time in times)
                print(f"| {pathlib.Path(binary).name} | {name} | {row} | {times[-1] / times[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
