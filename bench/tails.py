#!/usr/bin/env python3
"""The tables of `krarup run tails`: p99 and p99.9 by trouble, policy and rate, and what each policy costs the servers.

    krarup run tails --out results && bench/tails.py results

Each figure is the median of the repetitions that count. Costs are beside those of "least work" in the same trouble and at
the same rate: requests that servers answered for each read of a client, and bytes that their links carried.
"""

import csv
import json
import pathlib
import statistics
import sys


def trial(folder):
    """Levels, p99, p99.9, answers of servers per read, bytes of their links per read; none of what was not kept."""
    load = json.loads((folder / "load.json").read_text())
    levels = json.loads((folder / "trial.json").read_text())["identity"]["of"]
    overall = load["overall"]
    with open(folder / "middleware/1/servers.csv") as file:
        asked = sum(int(row["requests"]) for row in csv.DictReader(file))
    links = sum(link["bytes"] for link in json.loads((folder / "links.json").read_text()) if link["station"] == "servers")
    middleware = json.loads((folder / "middleware/1/summary.json").read_text())["all"]["count"]
    times = overall["response_time"]
    key = tuple(levels[f"level.{name}"] for name in ("trouble", "policy", "rate"))
    return key, (times["p99"], times["p999"], asked / middleware, links / overall["count"])


def duration(seconds):
    for unit, scale in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if seconds * scale >= 1:
            break
    return f"{seconds * scale:.{max(0, 2 - len(str(int(seconds * scale))))}f} {unit}"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: bench/tails.py RESULTS, the directory of `krarup run tails`")
    found = {}
    for result in sorted(pathlib.Path(sys.argv[1]).glob("trials/*/*/load.json")):
        key, figures = trial(result.parent)
        found.setdefault(key, []).append(figures)
    if not found:
        sys.exit(f"error: there are no trials in {sys.argv[1]}")
    cells = {key: [statistics.median(column) for column in zip(*trials)] for key, trials in found.items()}

    def levels(place, order):
        return sorted({key[place] for key in cells}, key=lambda level: order.index(level) if level in order else len(order))

    rates = levels(2, [])
    policies = levels(1, ["one copy", "one copy, coalesced", "least work", "two choices", "least outstanding", "hedged", "slow ejected"])
    for trouble in levels(0, ["none", "pauses", "throttled", "hot key"]):
        print(f"\n**{trouble}**\n")
        print("| policy | " + " | ".join(f"{rate}: p99 | p99.9 | requests, bytes" for rate in rates) + " |")
        print("|---|" + "---:|---:|---:|" * len(rates))
        for policy in policies:
            words = [policy]
            for rate in rates:
                p99, p999, asked, bytes_each = cells[trouble, policy, rate]
                _, _, least_asked, least_bytes = cells[trouble, "least work", rate]
                words += [duration(p99), duration(p999), f"{asked / least_asked:.2f}, {bytes_each / least_bytes:.2f}"]
            print("| " + " | ".join(words) + " |")


if __name__ == "__main__":
    main()
