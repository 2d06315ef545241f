#!/usr/bin/env python3
"""What idle clients cost krarup proxy: memory for each connection, processor time without requests.

    cargo build --release && bench/connections.py [--connections 10000]

Each connection has asked one thing, so that everything a client ever needs has been made; then all are idle.
"""

import argparse
import pathlib
import socket
import time

from proxies import ROOT, krarup_proxy, memcached, open_as_many_files_as_allowed


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", default=str(ROOT / "target/release/krarup"))
    arguments.add_argument("--connections", type=int, default=10_000)
    options = arguments.parse_args()
    open_as_many_files_as_allowed()
    server = memcached()
    proxy = krarup_proxy(options.binary, [server])
    try:
        def ask(client):
            client.sendall(b"get nothing\r\n")
            assert client.recv(100) == b"END\r\n"

        clients = [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(10)]
        for client in clients:
            ask(client)
        before = resident(proxy.process.pid)
        for number in range(options.connections):
            clients.append(socket.create_connection(("127.0.0.1", proxy.port)))
            ask(clients[-1])
        each = (resident(proxy.process.pid) - before) / options.connections
        used = proxy.cpu()
        time.sleep(5)
        idle = (proxy.cpu() - used) / 5
        ask(clients[0])
        ask(clients[-1])
        print(f"{options.connections} connections: {each:.0f} bytes each, {idle * 100:.3f} % of a processor while idle")
    finally:
        proxy.stop()
        server.stop()


if __name__ == "__main__":
    main()
