#!/usr/bin/env python3
"""The tables of `krarup run tails`: p99 and p99.9 by trouble, policy and rate, and what each policy costs the servers.

    krarup run tails --out results && bench/tails.py results docs/comparisons

It writes a table for each trouble, tails-TROUBLE.csv; `UPDATE=1 cargo test -p krarup --test all -- comparisons::` puts them into the page. Each figure is the median of the repetitions that count. Costs are beside those of "least work" in the same trouble and at
the same rate: requests that servers answered for each read of a client, and bytes that their links carried.
"""

import csv
import json
import pathlib
import statistics
import sys

from proxies import write_csv


def trial(folder):
    """Levels, p99, p99.9, answers of servers per read, bytes of their links per read."""
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


def trials(directory):
    """The folders of the trials that count: runs of the anchor do not, nor do trials of another spec that stand there still."""
    cells = json.loads((directory / "identities.json").read_text())["cells"]
    for folder in sorted(path.parent for path in directory.glob("trials/*/*/load.json")):
        identity = json.loads((folder / "trial.json").read_text())["identity"]
        if not folder.name.startswith("anchor-") and identity == cells.get(folder.parent.name, {}).get("identity"):
            yield folder


def milliseconds(seconds):
    """Three digits that count."""
    value = seconds * 1e3
    return f"{value:.{max(0, 3 - len(str(int(value))))}f}" if value >= 1 else f"{value:.3g}"


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: bench/tails.py RESULTS FOLDER: the directory of `krarup run tails`, and where the tables go")
    found = {}
    for folder in trials(pathlib.Path(sys.argv[1])):
        key, figures = trial(folder)
        found.setdefault(key, []).append(figures)
    if not found:
        sys.exit(f"error: there are no trials in {sys.argv[1]}")
    cells = {key: [statistics.median(column) for column in zip(*trials)] for key, trials in found.items()}

    def levels(place, order):
        return sorted({key[place] for key in cells}, key=lambda level: order.index(level) if level in order else len(order))

    rates = sorted({key[2] for key in cells}, key=lambda rate: int(rate.split("/")[0]))
    policies = levels(1, ["one copy", "one copy, coalesced", "least work", "two choices", "least outstanding", "hedged", "slow ejected"])
    quantities = ["p99 (ms)", "p99.9 (ms)", "requests", "bytes"]
    for trouble in levels(0, ["none", "pauses", "throttled", "hot key"]):
        rows = [["policy", *(f"{rate}: {quantity}" for rate in rates for quantity in quantities)]]
        for policy in policies:
            words = [policy]
            for rate in rates:
                p99, p999, asked, bytes_each = cells[trouble, policy, rate]
                _, _, least_asked, least_bytes = cells[trouble, "least work", rate]
                words += [milliseconds(p99), milliseconds(p999), f"{asked / least_asked:.2f}", f"{bytes_each / least_bytes:.2f}"]
            rows.append(words)
        write_csv(pathlib.Path(sys.argv[2]) / f"tails-{trouble.replace(' ', '-')}.csv", rows)


if __name__ == "__main__":
    main()
