"""Experiments: run one, and read a directory of results as tables. Times are seconds unless a name says otherwise; every name ends in its unit."""

import json
import os
import pathlib
import re
import tempfile
from datetime import datetime, timezone

from krarup.figures import Page, figure_names, only_figure, plot
from krarup.program import KrarupError, call
from krarup.tables import checked, needed, of_csv, of_duckdb, of_records

# The newest rows.parquet that this package reads.
ROWS_VERSION = 3
# What a column of such a file may be called: its name becomes a part of a statement.
COLUMN = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?")
# What results.json says of a cell's requests: how it is named there, here, and in which unit.
CLIENTS = [("response", "response_time", "s")]
MIDDLEWARE = [("response", "middleware_response_time", "s"), ("queue", "queue_time", "s"), ("server", "server_time", "s"), ("own", "own_time", "s")]
STATISTICS = ("mean", "p50", "p90", "p99")


class Experiment:
    """A directory of results, as ``krarup run`` and ``krarup demo`` make it."""

    def __init__(self, directory):
        self.path = pathlib.Path(directory)
        if not (self.path / "results.json").exists():
            raise KrarupError(f"{directory} has no results.json", "give a directory that `krarup run` made, or make it anew with `krarup analyze DIR`")

    def __repr__(self):
        return f"<krarup.Experiment {str(self.path)!r}: {self.title}>"

    @property
    def found(self):
        """Everything in ``results.json``."""
        return json.loads((self.path / "results.json").read_text(encoding="utf-8"))

    @property
    def title(self):
        """What was examined, in the spec's words."""
        return self.found["title"]

    def results(self, engine="duckdb"):
        """A row for each estimate of each cell: quantity, statistic, unit, value, its interval, the number of observations behind it and what these are."""
        return results(self.path, engine)

    def cells(self, engine="duckdb"):
        """A row for each cell, a column for each estimate."""
        return cells(self.path, engine)

    def trials(self, engine="duckdb"):
        """A row for each trial, failed ones too."""
        return trials(self.path, engine)

    def rows(self, engine="duckdb"):
        """A row for each request, where stations kept rows."""
        return rows(self.path, engine)

    def report(self):
        """The report, as a notebook shows it."""
        return Page((self.path / "report.html").read_text(encoding="utf-8"), height=800)

    @property
    def figures(self):
        """The names of the report's figures."""
        return figure_names((self.path / "report.html").read_text(encoding="utf-8"))

    def figure(self, name):
        """One figure of the report alone, as a notebook shows it: drawn by the report's own script, with its readout and zoom."""
        return only_figure((self.path / "report.html").read_text(encoding="utf-8"), name)

    def figure_data(self, name, engine="pandas"):
        """What a figure draws."""
        file = self.path / "figures" / f"{name}.csv"
        if not file.exists():
            raise KrarupError(f"there is no figure {name!r} in {self.path}", f"one of {', '.join(self.figures)}")
        return of_csv(file.read_text(encoding="utf-8"), engine)

    def plot(self, name="throughput-and-response-time", axes=None):
        """A figure drawn by matplotlib, one panel for each quantity, intervals as bars; gives the axes."""
        return plot(self.figure_data(name, "arrow"), name, axes)


def run(spec="demo", out=None, quick=False, show=True, replace=False):
    """Carries out an experiment, and gives its results.

    ``spec`` is a file, the name of a spec that comes with the program (``demo``, ``asl2018/2.1``), or the text of one (with line breaks). An
    experiment whose directory is there goes on where it stopped; trials of another plan there are replaced with ``replace`` alone.
    With ``show`` progress goes to stderr.
    """
    with tempfile.TemporaryDirectory(prefix="krarup-spec-") as folder:
        if "\n" in str(spec):
            path = pathlib.Path(folder) / "spec.toml"
            path.write_text(str(spec), encoding="utf-8")
            out = out or "krarup-spec"
        else:
            path = spec
            out = out or f"krarup-{pathlib.Path(spec).stem if os.path.exists(spec) else str(spec).replace('/', '-')}"
        call("run", path, "--out", out, *(["--quick"] if quick else []), *(["--yes"] if replace else []), show=show)
    return Experiment(out)


def levels(pairs, taken):
    """The levels of factors, those that are numbers as numbers; a factor that is called as another column (``taken``) has ``factor_`` before its name."""
    names = [name for name, _ in pairs]
    for place in range(len(names)):
        # DuckDB takes large letters for small ones.
        while [name.lower() for name in (*names, *taken)].count(names[place].lower()) > 1:
            names[place] = f"factor_{names[place]}"
    return {name: number(level) for name, (_, level) in zip(names, pairs)}


def number(text):
    """A number where the text is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def estimates(cell):
    """Each estimate of a cell: quantity, statistic, unit, and what results.json says of it."""
    yield "throughput", "mean", "per_s", cell["throughput"]
    middleware = cell.get("middleware") or {}
    for found, names in ((cell, CLIENTS), (middleware, MIDDLEWARE)):
        for name, quantity, unit in names:
            for statistic in STATISTICS:
                yield quantity, statistic, unit, (found.get(name) or {}).get(statistic)
    yield "outside_time", "mean", "s", middleware.get("outside")
    yield "queue_length", "mean", "requests", middleware.get("queue_length")


def interval(estimate):
    """The ends of an estimate's interval, as the report has them; none where it has none. Rates, times and counts are not below zero, nor is the lower end."""
    ends = estimate.get("interval") or {}
    low, high = ends.get("low"), ends.get("high")
    return (low if low is None or estimate["value"] < 0 else max(0.0, low)), high


def results(directory, engine="duckdb"):
    """A row for each estimate of each cell of a directory of results.

    ``basis`` says what the ``n`` observations are: repetitions, or of a cell that ran once its windows, which tell nothing about another run.
    """
    checked(engine)
    found = []
    for cell in Experiment(directory).found["cells"]:
        for quantity, statistic, unit, estimate in estimates(cell):
            if estimate is not None:
                low, high = interval(estimate)
                row = {"quantity": quantity, "statistic": statistic, "unit": unit.replace("per_s", "1/s")}
                row |= {"value": estimate["value"], "low": low, "high": high, "n": estimate["n"], "basis": estimate["basis"]}
                found.append({**levels(cell["factors"], row), **row})
    return of_records(found, engine)


def cells(directory, engine="duckdb"):
    """A row for each cell: its levels, then each estimate with the ends of its interval and its number of observations (of a cell that ran once, windows)."""
    checked(engine)
    found = []
    for cell in Experiment(directory).found["cells"]:
        row = {"think_time_s": cell["think"], "repetitions": len(cell["repetitions"])}
        for quantity, statistic, unit, estimate in estimates(cell):
            # A throughput is always a mean.
            name = f"{quantity}_{unit}" if quantity in ("throughput", "queue_length") else f"{quantity}_{statistic}_{unit}"
            estimate = estimate or {"value": None, "n": None}
            low, high = interval(estimate)
            row |= {name: estimate["value"], f"{name}_low": low, f"{name}_high": high, f"{name}_n": estimate["n"]}
        row |= {"hit_ratio": cell["hit_ratio"], "completed_requests": cell["completed"], "failed_requests": cell["errors"]}
        named, middleware = levels(cell["factors"], row), cell.get("middleware") or {}
        row |= {"workers": middleware.get("workers")} if "workers" not in map(str.lower, named) else {}
        found.append({**named, **row})
    return of_records(found, engine)


def trials(directory, engine="duckdb"):
    """A row for each trial that a directory keeps, failed ones with their reason; repetitions count from 1, and runs of the anchor are none.

    ``of_this_spec`` says whether it was made by the spec as it is, ``in_figures`` whether it is one of the repetitions of the report's cells, which those
    beyond the spec's number are not. Throughput and response time of these are the report's (``trials.csv``), with the requests that failed;
    ``answered_well_per_s`` is without them, and of every trial that measured anything.
    """
    checked(engine)
    experiment = Experiment(directory)
    path, cells = experiment.path, experiment.found["cells"]
    planned = [cell["factors"] for cell in cells]
    counted = {(str(cell["factors"]), one["repetition"]): one for cell in cells for one in cell["repetitions"]}
    known = json.loads((path / "identities.json").read_text(encoding="utf-8"))["cells"] if (path / "identities.json").exists() else None
    found = []
    for file in sorted([*path.glob("trials/*/*/trial.json"), *path.glob("failed/*/*/trial.json")]):
        trial, folder = json.loads(file.read_text(encoding="utf-8")), file.parent.relative_to(path)
        # Earlier builds have written no identities: all trials with the levels of a cell are its.
        cell = {"earlier": trial["levels"] in planned} if known is None else known.get(folder.parts[1], {})
        of_report = counted.get((str(trial["levels"]), trial["repetition"])) if folder.parts[0] == "trials" else None
        # What failed before it had measured has zeros.
        own = {} if trial["failed"] and trial["throughput"] == trial["response"] == 0 else trial
        identity, is_anchor = trial["identity"], folder.name.startswith("anchor-")
        row = {
            "trial": str(folder),
            "repetition": None if is_anchor else trial["repetition"] + 1,
            "attempt": trial["attempt"],
            "is_anchor": is_anchor,
            "started": datetime.fromtimestamp(trial["started_unix"], timezone.utc),
            "throughput_per_s": of_report and of_report["throughput"],
            "response_time_mean_s": (of_report or own).get("response"),
            "answered_well_per_s": own.get("throughput"),
            "failed": trial["failed"],
            "of_this_spec": cell.get("earlier", False) if isinstance(identity, str) else identity == cell.get("identity"),
            "in_figures": of_report is not None,
        }
        found.append({"trial": row["trial"], **levels(trial["levels"], row), **row})
    return of_records(found, engine)


def rows(directory, engine="duckdb"):
    """A row for each request of every ``rows.parquet`` below a directory (or of one such file, or of files that rotate), with the times between its stamps.

    Names and units come from the files themselves; ``key``, ``time`` and ``instance`` are there where every file has them. The warm-up of a trial
    has rows too. DuckDB and Polars read only what is asked of them.
    """
    checked(engine)
    duckdb = needed("duckdb")
    path = pathlib.Path(directory)
    files = [path] if path.is_file() else sorted(path.rglob("rows*.parquet"))
    if not files:
        raise KrarupError(f"there is no rows.parquet in {directory}", 'let a station keep rows: flags = ["--rows"]')
    places, units = [], None
    for file in files:
        kept = described(duckdb, file)
        if int(kept.get("krarup.schema_version", 0)) > ROWS_VERSION:
            raise KrarupError(f"{file} is of a newer krarup than this package", "pip install --upgrade krarup")
        of_file = dict(line.split("\t")[:3:2] for line in kept["krarup.columns"].splitlines())
        if wrong := [name for name in of_file if not COLUMN.fullmatch(name)]:
            raise KrarupError(f"{file} names a column {wrong[0]!r}", "give files of rows that krarup wrote: its columns have letters, digits and _")
        units = of_file if units is None else {name: unit for name, unit in units.items() if name in of_file}
        folder = file.parent.relative_to(path) if path.is_dir() else pathlib.Path()
        folder = pathlib.Path(*[part for part in folder.parts if not part.startswith(("date=", "hour="))])
        trial = "/".join(folder.parts[:3]) if folder.parts[:1] in [("trials",), ("failed",)] else str(folder)
        places.append((str(file), trial, "clients" if kept.get("krarup.clients") == "true" else "middleware"))
    return of_duckdb(duckdb.sql(query(places, units)), engine)


def described(duckdb, file):
    """A file's own metadata."""
    pairs = duckdb.execute("SELECT decode(key), decode(value) FROM parquet_kv_metadata(?)", [str(file)]).fetchall()
    return dict(pairs)


def quoted(text):
    """Text in a statement."""
    return "'" + text.replace("'", "''") + "'"


def query(places, units):
    """The statement behind rows: each column with its unit in its name, and the times between stamps."""

    def column(name, unit, of=""):
        return f"CAST({of}{name} AS BIGINT) AS {name}_ns" if unit == "ns" else f"{of}{name} AS {name}"

    own = [column(name, unit) for name, unit in units.items() if "." not in name]
    parts = [name.split(".")[1] for name in units if name.startswith("servers.")]
    server = ", ".join(f"{n}_ns := CAST(s.{n} AS BIGINT)" if units[f"servers.{n}"] == "ns" else f"{n} := s.{n}" for n in parts if n != "lane")
    listed = ", ".join(f"({', '.join(map(quoted, place))})" for place in places)
    files = ", ".join(quoted(file) for file, _, _ in places)
    # A folder `keys=6` is no column: its level would stand in every row in place of what the file says.
    return f"""
        WITH kept AS (
            SELECT place.trial, place.recorded_at, {', '.join(own)},
                [struct_pack({server}) FOR s IN servers] AS servers
            FROM read_parquet([{files}], filename = true, union_by_name = true, hive_partitioning = false) AS read
            JOIN (VALUES {listed}) AS place(file, trial, recorded_at) ON read.filename = place.file
        ), timed AS (
            SELECT *, taken_ns - queued_ns AS queue_time_ns,
                coalesce(list_max([s.answered_ns FOR s IN servers]) - list_min([s.sent_ns FOR s IN servers]), 0) AS server_time_ns,
                replied_ns - received_ns AS response_time_ns
            FROM kept
        )
        SELECT *, response_time_ns - queue_time_ns - server_time_ns AS own_time_ns FROM timed"""
