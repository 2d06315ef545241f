#!/usr/bin/env python3
"""The sizing table of docs/guide/broker-production.md, out of a directory of results.

    krarup run bench/sizing.toml --quick --out sizing && bench/sizing.py sizing

A message is three requests: a put, a reserve, a delete. The broker's processor time is the scheduler's account of its process (cpu.json of each trial); that of PostgreSQL's processes is in bench/broker.py.
"""

import json
import pathlib
import sys


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        cells = json.loads((pathlib.Path(sys.argv[1]) / "results.json").read_text())["cells"]
    except OSError as error:
        sys.exit(f"error: {error}\n  hint: name the directory that krarup run has written")
    print("| mode | bytes | clients | messages/s | p99 ms | broker µs of processor per message |\n|---|---:|---:|---:|---:|---:|")
    for cell in cells:
        mode, size = (word.strip() for word in cell["levels"]["workload"].removeprefix("mode ").rsplit(", ", 1))
        messages = cell["throughput"]["value"] / 3
        busy = sum(one["busy"] for one in cell["load"] if one["station"] == "server")
        print(f"| `{mode}` | {size.removeprefix('size ')} | {cell['levels']['clients']} | {messages:,.0f} | {1e3 * cell['response']['p99']['value']:.2f} | {1e6 * busy / messages:.0f} |")


if __name__ == "__main__":
    main()
