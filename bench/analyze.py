#!/usr/bin/env python3
"""How long `krarup analyze` takes over the rows of a million requests.

Simulates a closed network until its visits fill a file of at least so many rows (the same columns as the proxy writes, the same bytes each time), and then
times the analysis: wall and processor time of the whole process (wait4), the median of several rounds.

    cargo build --release
    bench/analyze.py [--krarup PATH] [--rows 1000000] [--rounds 5]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

from report import ROOT, timed

NETWORK = """
name = "clients, a middleware, a server"
[[station]]
name = "middleware"
[[station]]
name = "server"
[[class]]
name = "clients"
population = 32
think = "100 us"
path = [{ at = "middleware", service = "20 us" }, { at = "server", service = "40 us" }]
"""


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--krarup", default=ROOT / "target/release/krarup")
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        network, rows = pathlib.Path(folder, "network.toml"), pathlib.Path(folder, "rows.parquet")
        network.write_text(NETWORK)
        # Each turn of a client is three events (thinking, two services), of which two are visits.
        events = str(int(arguments.rows * 1.7))
        timed([arguments.krarup, "model", "simulate", network, "--visits", rows, "--precision", "0.0001", "--max-events", events])
        words = [arguments.krarup, "analyze", rows]
        rounds = [timed(words) for _ in range(arguments.rounds)]
        found = json.loads(subprocess.run([*words, "--json"], check=True, capture_output=True).stdout)[0]
        wall, cpu = (statistics.median(part) for part in zip(*rounds))
        print(f"{found['rows']:,} rows ({rows.stat().st_size / 1e6:.1f} MB): analysis in {wall:.2f} s "
              f"({min(r[0] for r in rounds):.2f}-{max(r[0] for r in rounds):.2f}), {cpu:.2f} s of processor time")


if __name__ == "__main__":
    main()
