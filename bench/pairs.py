#!/usr/bin/env python3
"""Two ways beside each other, in many short trials of few cells: what drifts over minutes is alike in both.

    bench/pairs.py middlewares --krarup target/release/krarup --out pairs

Each part is an experiment that comes with the program (crates/lab/specs), cut down to the cells that are compared. It needs root and a machine at rest; DIR/PART has the spec and the results, and the same command again measures
what is missing. Printed is the geometric mean of the ratios of throughputs within each repetition, with its 95 % interval; pairs with a trial that others disturbed are left out.
"""

import argparse
import collections
import csv
import functools
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys

from intervals import mean_and_half

SPECS = pathlib.Path(__file__).resolve().parent.parent / "crates" / "lab" / "specs"


def repeated(text, repetitions):
    """The text of a spec with so many repetitions of each cell."""
    return re.sub(r"(?m)^repetitions = .*", f"repetitions = {{ min = {repetitions}, max = {repetitions} }}", text)


def cut(spec, repetitions, phases, levels, without=()):
    """The text of a spec with other repetitions, phases and levels; without levels as these, predictions, anchor and sheet."""
    text = re.split(r"(?m)^\[\[sheet\]\]|^\[quick\]", (SPECS / spec).read_text())[0]
    text = re.sub(r"(?m)^\[(anchor|predictions)\]\n(?:(?!\[).*\n)*", "", text)
    text = repeated(text, repetitions)
    # Of a short trial much of the response time may lie outside.
    text = text.replace(', "interactive_law within 5 %"', "")
    text = re.sub(r"(?m)^phases = .*", "phases = {{ warm_up = \"{}\", measure = \"{}\" }}".format(*phases), text)
    for factor, of in levels.items():
        text, found = re.subn(rf'(?m)^(name = "{factor}"\nlevels = )\[.*\]', rf"\g<1>{of}", text)
        assert found == 1, f"{spec} has no levels of {factor} in one line"
    for level in without:
        text, found = re.subn(rf'(?m)^ *{{ name = "{level}".*\n', "", text)
        assert found == 1, f"{spec} has no level {level}"
    return text


FACTORS = ("operation", "servers", "replication", "writes", "middlewares", "pool", "clients", "workers", "readers", "connections")
PARTS = {
    # The 2015 report: two middlewares of 20 connections, or one of 40.
    "middlewares": (
        lambda: cut("asl2015-middlewares.toml", 18, ("2s", "10s"), {"clients": [60]}).replace('by = "auto"', "by = 12"),
        [("middlewares", 2, 1, {})],
    ),
    # The same database behind one middleware with 17, 20 or 40 connections.
    "connections": (
        lambda: re.sub(
            r"(?m)^zip = .*\n",
            "",
            cut("asl2015-middlewares.toml", 18, ("2s", "10s"), {"middlewares": [1], "pool": [17, 20, 40], "clients": [60, 120]}).replace('by = "auto"', "by = 12"),
        ),
        [("pool", 40, 20, {}), ("pool", 40, 17, {}), ("pool", 20, 17, {})],
    ),
    # The 2018 report, writes through one middleware: 32 or 64 workers, and whether 288 clients bring more than 192.
    "workers": (
        lambda: cut("asl2018-3.1.toml", 7, ("3s", "9s"), {"connections": [16, 32, 64, 96]}, ["read-only"]),
        [
            ("workers", 32, 64, {"connections": {16, 32}}),
            ("connections", 96, 64, {"workers": {8, 16, 32}}),
            ("connections", 96, 64, {"workers": {64}}),
        ],
    ),
    # The same through two.
    "writes": (
        lambda: cut("asl2018-3.2.toml", 8, ("3s", "9s"), {"connections": [64, 96]}, ["read-only"]),
        [("connections", 96, 64, {"workers": {8, 16, 32}}), ("connections", 96, 64, {"workers": {64}})],
    ),
    # Reads of six clients and of 192, which links limit: no station's share is looked for.
    "reads": (
        lambda: re.sub(
            r"(?m)^\[\[scale\.baseline\]\]\n(?:(?!\[).*\n)*",
            "",
            cut("asl2018-3.2.toml", 14, ("3s", "9s"), {"workers": [8], "connections": [2, 64]}, ["write-only"]),
        ),
        [("connections", 2, 64, {})],
    ),
    # The 2018 report, writes of 192 clients to one server and to three: one middleware of 32 workers, or two of 8.
    "gains": (
        lambda: cut("asl2018-6.toml", 14, ("3s", "9s"), {"workers": [32, 8]}, ["read-only"]).replace("effects_by", 'zip = [["middlewares", "workers"]]\neffects_by'),
        [("middlewares", 1, 2, {}), ("middlewares", 1, 2, {"servers": {1}}), ("middlewares", 1, 2, {"servers": {3}})],
    ),
    # The 2016 report: 24 or 32 readers, with few clients and with many.
    "readers": (
        lambda: cut("asl2016-1.toml", 14, ("2s", "6s"), {"readers": [24, 32], "connections": [20, 36, 52, 68]}),
        [("readers", 32, 24, {}), ("readers", 32, 24, {"connections": {20, 36, 52}}), ("readers", 32, 24, {"connections": {52, 68}})],
    ),
    # The 2016 report: 10 % writes or 1 %, each key on one server (replication 1) or on all (7).
    "mixes": (
        lambda: functools.reduce(
            lambda text, names: text.replace(*names),
            [('"none"', '"1"'), ('"full"', '"7"'), ('"1 % writes"', '"1"'), ('"5 % writes"', '"5"'), ('"10 % writes"', '"10"')],
            cut("asl2016-3.toml", 20, ("500ms", "3s"), {}),
        ),
        [("writes", 10, 1, {}), ("servers", 7, 3, {}), ("replication", 7, 1, {})],
    ),
}
# What the middleware records of one operation, asked of the part that mixes them.
TIMES = (("set", "response", "p50"), ("set", "server", "p50"), ("get", "response", "p50"), ("get", "server", "p50"), ("get", "queue", "mean"))


def trials(results):
    """The throughput of each trial by the levels of its cell and its repetition."""
    with open(results / "trials.csv", newline="") as file:
        return [{**row, "throughput": float(row["throughput_per_s"])} for row in csv.DictReader(file)]


def with_times(results, row):
    """The row with what its trial's middleware recorded of each operation."""
    factors = list(row)[: list(row).index("repetition")]
    cell = ",".join(f"{name}={row[name]}" for name in factors if name != "population")
    (file,) = (results / "trials" / cell / str(int(row["repetition"]) - 1) / "middleware").rglob("summary.json")
    summary = json.loads(file.read_text())
    operations = {operation["operation"]: operation for operation in summary["operations"]}
    return {**row, **{of: operations[of[0]][of[1]][of[2]] for of in TIMES}}


def ratios(rows, factor, after, before, only, of="throughput"):
    """The logarithm of the ratio in each repetition, the mean over cells that are otherwise alike; and how many pairs these are."""
    rows = [row for row in rows if row["disturbed"] == "no" and all(int(row[name]) in levels for name, levels in only.items())]
    varied = {"middlewares", "pool", "workers"} if factor == "middlewares" else {factor}
    names = [name for name in (*FACTORS, "repetition") if rows and name in rows[0] and name not in varied]
    sides = collections.defaultdict(dict)
    for row in rows:
        sides[tuple(row[name] for name in names)][int(row[factor])] = row[of]
    of_repetitions = collections.defaultdict(list)
    for names, side in sides.items():
        if after in side and before in side:
            of_repetitions[names[-1]].append(math.log(side[after] / side[before]))
    return [statistics.fmean(of_repetition) for of_repetition in of_repetitions.values()], sum(map(len, of_repetitions.values()))


def changes(rows, base):
    """The logarithms of each cell's ratio to the base in each repetition, by cell."""
    repetitions = collections.defaultdict(dict)
    for row in rows:
        if row["disturbed"] == "no":
            repetitions[row["repetition"]][tuple(row[name] for name in base)] = row["throughput"]
    first, cells = tuple(base.values()), collections.defaultdict(list)
    for cell_rates in repetitions.values():
        for cell, rate in cell_rates.items():
            if first in cell_rates and cell != first:
                cells[cell].append(math.log(rate / cell_rates[first]))
    return cells


def interval(logarithms):
    """The geometric mean and its interval, as printed."""
    middle, half = mean_and_half(logarithms)
    return "{:.3f} ({:.3f} to {:.3f})".format(*(math.exp(value) for value in (middle, middle - half, middle + half)))


def spread(rows):
    """How each cell's trials scatter about what its repetition did, as a share: by workers and connections."""
    rows = [row for row in rows if row["disturbed"] == "no"]
    cells, repetitions = collections.defaultdict(list), collections.defaultdict(list)
    for row in rows:
        repetitions[row["repetition"]].append(math.log(row["throughput"]))
    for row in rows:
        cells[int(row["workers"]), int(row["connections"])].append(math.log(row["throughput"]) - statistics.fmean(repetitions[row["repetition"]]))
    return {cell: statistics.stdev(values) for cell, values in cells.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--krarup", default="target/release/krarup")
    parser.add_argument("--out", default="pairs")
    parser.add_argument("--repetitions", type=int, metavar="N", help="of each cell (as many as the part says)")
    args = parser.parse_args()
    spec, asked = PARTS[args.part]
    folder = pathlib.Path(args.out) / args.part
    folder.mkdir(parents=True, exist_ok=True)
    text = spec()
    if args.repetitions is not None:
        if args.repetitions < 2:
            parser.error(f"--repetitions {args.repetitions}\n  hint: at least 2, or there is no interval")
        text = repeated(text, args.repetitions)
    (folder / "spec.toml").write_text(text)
    # A trial on a machine that was disturbed is one of many, and its pair was beside it.
    ended = subprocess.run([args.krarup, "run", folder / "spec.toml", "--yes", "--keep-disturbed", "--out", folder / "results"], check=False)
    if ended.returncode:
        sys.exit(f"error: krarup run ended with {ended.returncode}\n  hint: the same command goes on where it stopped")
    rows = trials(folder / "results")
    for factor, after, before, only in asked:
        logarithms, pairs = ratios(rows, factor, after, before, only)
        of = "".join(f", {name} {' and '.join(map(str, sorted(levels)))}" for name, levels in only.items())
        if len(logarithms) < 2:
            print(f"{factor} {after} over {before}{of}: disturbed in all repetitions but {len(logarithms)}; ask for more by --repetitions")
            continue
        print(f"{factor} {after} over {before}{of}: {interval(logarithms)}, {pairs} pairs in {len(logarithms)} repetitions")
    if args.part == "mixes":
        timed = [with_times(folder / "results", row) for row in rows]
        for factor, after, before, _ in asked:
            for copies in ({1}, {7}, {1, 7}) if factor != "replication" else ({1, 7},):
                for time in TIMES:
                    logarithms, _ = ratios(timed, factor, after, before, {"replication": copies}, time)
                    if len(logarithms) < 2:
                        continue
                    print(f"{factor} {after} over {before}, replication {sorted(copies)}: {' '.join(time)} {interval(logarithms)}")
        for cell, logarithms in changes(rows, {"servers": "3", "replication": "1", "writes": "1"}).items():
            if len(logarithms) < 2:
                continue
            print("{} servers, replication {}, {} % writes: throughput over 3, 1, 1 %".format(*cell), interval(logarithms))
    if args.part == "workers":
        for cell, deviation in sorted(spread(rows).items()):
            print("{} workers, {} connections of each client:".format(*cell), f"trials scatter by {deviation:.3f}")


if __name__ == "__main__":
    main()
