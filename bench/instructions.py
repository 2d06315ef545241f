#!/usr/bin/env python3
"""Instructions that krarup proxy executes for one request, outside the kernel: a figure that noise does not move.

    cargo build --release && cargo build --release -p krarup-proxy --example core && bench/instructions.py

Runs the proxy under valgrind's callgrind twice, with few and with many requests; the difference is what requests
cost, whatever the start did. Then the same for its core alone, without sockets, where the figure is the same every
time. Needs valgrind and memcached.
"""

import argparse
import json
import pathlib
import re
import subprocess
import tempfile

from proxies import ROOT, Station, free_port, load, memcached

WORKLOADS = [
    ("64 B, 1:10, 16 connections", "-c 16 --ratio 1:10 -d 64"),
    ("64 B, 1:10, 16 connections, pipeline 16", "-c 16 --ratio 1:10 -d 64 --pipeline 16"),
    ("4096 B GET, 16 connections", "-c 16 --ratio 0:1 -d 4096"),
]


def instructions(binary, flags, seconds, folder):
    """All instructions of one run, and the requests it answered."""
    out = pathlib.Path(folder) / "callgrind.out"
    server = memcached()
    port = free_port()
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", binary, "proxy"]
    command += ["--listen", f"127.0.0.1:{port}", "--servers", f"127.0.0.1:{server.port}"]
    proxy = Station(command, port, 60)
    try:
        load(binary, port, flags, ["--populate-only"])
        result = json.loads(load(binary, port, flags, ["--seconds", f"{seconds}s", "--json", "-"]))
    finally:
        proxy.stop()
        server.stop()
    return counted(out), result["account"]["answered"]


def counted(out):
    return int(re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.MULTILINE).group(1))


def of_the_core(binary, workload, folder):
    """Instructions of a request in the core, by the example `core`."""
    out = pathlib.Path(folder) / "callgrind.out"
    example = str(pathlib.Path(binary).parent / "examples/core")
    counts = []
    for requests in (20_000, 120_000):
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", example, workload, str(requests)]
        run = subprocess.run(command, check=True, capture_output=True)
        # It ends with a whole round of its clients.
        counts.append((counted(out), int(run.stdout.split()[0])))
    few, many = counts
    return (many[0] - few[0]) / (many[1] - few[1])


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", default=str(ROOT / "target/release/krarup"))
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, flags in WORKLOADS:
            few, many = (instructions(options.binary, flags, seconds, folder) for seconds in (0.5, 4))
            print(f"{name:44} {(many[0] - few[0]) / (many[1] - few[1]):8.0f} instructions a request", flush=True)
        for workload in ("get", "set", "multiget"):
            print(f"{'the core alone, ' + workload:44} {of_the_core(options.binary, workload, folder):8.0f} instructions a request", flush=True)


if __name__ == "__main__":
    main()
