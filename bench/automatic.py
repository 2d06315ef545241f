#!/usr/bin/env python3
"""What workers = "auto" chooses before a quick server and before one that is slow, beside fixed numbers.

For each server a proxy with each number, one after the other: usual traffic for --usual seconds, at a third of what the server does with the most workers; then clients that ask again at once for --seconds, far more than
it can do. With auto the number is asked for at the end of both.

    cargo build --release
    bench/automatic.py [--usual 60] [--seconds 10] [--workers 8,32,256] [--binary target/release/krarup]

Needs memcached.
"""

import argparse
import urllib.request

from headroom import GETS, ROOT, Memcached, Program, Scenario, Server, exponential, load


def workers(program):
    with urllib.request.urlopen(f"http://127.0.0.1:{program.admin}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("krarup_workers "))


def verdict(program):
    answer = program.headroom("p99 < 1s")
    return " ".join([answer["verdict"], *answer["silent"]])


def goodput(arguments, server, number, usual):
    """Replies a second in the overload, and what was chosen."""
    program = Program(arguments.binary, [server], Scenario(list, "server", f"workers = {number}"))
    try:
        said = ""
        if usual:
            load(arguments.binary, program.port, arguments.usual, *GETS, "-c", 64, "--rate", f"{0.15 * usual:.0f}-{0.5 * usual:.0f}x{arguments.usual}s")
            said = f"after the usual traffic {workers(program)} ({verdict(program)})"
        full = load(arguments.binary, program.port, arguments.seconds, *GETS, "-c", 96)["overall"]["throughput"]
        return full, f"{said}, at the end {workers(program)}" if usual else ""
    finally:
        program.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "target/release/krarup"))
    parser.add_argument("--usual", type=int, default=60)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--workers", default="8,32,256")
    arguments = parser.parse_args()
    numbers = arguments.workers.split(",")
    for name, make in [("memcached, here", Memcached), ("1 ms, exponential", lambda: Server(exponential(1e-3, 1)))]:
        server = make()
        try:
            fixed = {number: goodput(arguments, server, number, None)[0] for number in numbers}
            best = max(fixed.values())
            full, chosen = goodput(arguments, server, '"auto"', best)
        finally:
            if isinstance(server, Memcached):
                server.stop()
        print(f"{name}: " + ", ".join(f"{number}: {rate:.0f}/s" for number, rate in fixed.items()))
        print(f"  auto: {full:.0f}/s, {100 * full / best:.1f} % of the best; {chosen}", flush=True)


if __name__ == "__main__":
    main()
