#!/usr/bin/env python3
"""What `krarup headroom` says of a proxy before three servers, one of them slow, and what the same servers give afterwards.

    cargo build --release -p krarup
    bench/headroom_example.py target/release/krarup LOW HIGH SECONDS

64 clients ask for LOW to HIGH requests a second, up and down twice, each way SECONDS long. Then the screen is printed, the rate of clients that ask again as
soon as they are answered, and the 99th percentile at 700 and 800 requests a second. The ports, and with them the shares of the ring, change from run to
run. The examples in README.md and docs/guide/headroom.md are made so, with nothing else at work on the machine.
"""

import os
import subprocess
import sys

import headroom

CLIENTS = ["-c", 64]


def main():
    binary, low, high, seconds = sys.argv[1], *map(int, sys.argv[2:5])
    scenario = headroom.SCENARIOS["slow"]
    headroom.Link.binary = binary
    servers = scenario.servers()
    program = headroom.Program(binary, servers, scenario)
    print(f"the slow server is 127.0.0.1:{servers[1].port}")
    ramps = ",".join([f"{low}-{high}x{seconds}s,{high}-{low}x{seconds}s"] * 2)
    headroom.load(binary, program.port, 4 * seconds, *scenario.load, *CLIENTS, "--rate", ramps)
    command = [binary, "headroom", f"127.0.0.1:{program.admin}", "--target", "p99 < 20ms"]
    subprocess.run(command, env={**os.environ, "COLUMNS": "80"}, check=False)
    full = headroom.load(binary, program.port, 6, *scenario.load, *CLIENTS)
    print(f"clients that ask again at once: {full['overall']['throughput']:.0f}/s")
    for rate in [700, 800]:
        one = headroom.load(binary, program.port, 20, *scenario.load, *CLIENTS, "--rate", rate)
        print(f"asked for {rate}/s: {one['overall']['throughput']:.0f}/s, p99 {1000 * headroom.p99(one):.1f} ms")
    program.stop()


if __name__ == "__main__":
    main()
