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
        return json.loads((self.path / "results.json").read_text())

    @property
    def title(self):
        """What was examined, in the spec's words."""
        return self.found["title"]

    def results(self, engine="duckdb"):
        """A row for each estimate of each cell: quantity, statistic, unit, value, its interval and the number of observations behind it."""
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
        return Page((self.path / "report.html").read_text(), height=800)

    @property
    def figures(self):
        """The names of the report's figures."""
        return figure_names((self.path / "report.html").read_text())

    def figure(self, name):
        """One figure of the report alone, as a notebook shows it: drawn by the report's own script, with its readout and zoom."""
        return only_figure((self.path / "report.html").read_text(), name)

    def figure_data(self, name, engine="pandas"):
        """What a figure draws."""
        file = self.path / "figures" / f"{name}.csv"
        if not file.exists():
            raise KrarupError(f"there is no figure {name!r} in {self.path}", f"one of {', '.join(self.figures)}")
        return of_csv(file.read_text(), engine)

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
            path.write_text(str(spec))
            out = out or "krarup-spec"
        else:
            path = spec
            out = out or f"krarup-{pathlib.Path(spec).stem if os.path.exists(spec) else str(spec).replace('/', '-')}"
        call("run", path, "--out", out, *(["--quick"] if quick else []), *(["--yes"] if replace else []), show=show)
    return Experiment(out)


def levels(pairs):
    """The levels of factors, those that are numbers as numbers."""
    return {name: number(level) for name, level in pairs}


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
    """The ends of an estimate's interval; none where it has none."""
    ends = estimate.get("interval") or {}
    return ends.get("low"), ends.get("high")


def results(directory, engine="duckdb"):
    """A row for each estimate of each cell of a directory of results."""
    checked(engine)
    found = []
    for cell in Experiment(directory).found["cells"]:
        for quantity, statistic, unit, estimate in estimates(cell):
            if estimate is not None:
                low, high = interval(estimate)
                told = {"quantity": quantity, "statistic": statistic, "unit": unit.replace("per_s", "1/s")}
                found.append({**levels(cell["factors"]), **told, "value": estimate["value"], "low": low, "high": high, "n": estimate["n"]})
    return of_records(found, engine)


def cells(directory, engine="duckdb"):
    """A row for each cell: its levels, then each estimate with the ends of its interval and its number of observations."""
    checked(engine)
    found = []
    for cell in Experiment(directory).found["cells"]:
        row = {**levels(cell["factors"]), "think_time_s": cell["think"]}
        for quantity, statistic, unit, estimate in estimates(cell):
            # A throughput is always a mean.
            name = f"{quantity}_{unit}" if quantity in ("throughput", "queue_length") else f"{quantity}_{statistic}_{unit}"
            estimate = estimate or {"value": None, "n": None}
            low, high = interval(estimate)
            row |= {name: estimate["value"], f"{name}_low": low, f"{name}_high": high, f"{name}_n": estimate["n"]}
        middleware = cell.get("middleware") or {}
        row |= {"workers": middleware.get("workers")} if "workers" not in row else {}
        found.append({**row, "hit_ratio": cell["hit_ratio"], "completed_requests": cell["completed"], "failed_requests": cell["errors"]})
    return of_records(found, engine)


def trials(directory, engine="duckdb"):
    """A row for each trial that a directory keeps, failed ones with their reason; repetitions count from 1. ``of_this_spec`` says whether it counts for the spec as it is."""
    checked(engine)
    path = Experiment(directory).path
    known = json.loads((path / "identities.json").read_text())["cells"] if (path / "identities.json").exists() else {}
    found = []
    for file in sorted([*path.glob("trials/*/*/trial.json"), *path.glob("failed/*/*/trial.json")]):
        trial = json.loads(file.read_text())
        cell, identity = known.get(file.parent.parent.name, {}), trial["identity"]
        found.append(
            {
                "trial": str(file.parent.relative_to(path)),
                **levels(trial["levels"]),
                "repetition": trial["repetition"] + 1,
                "attempt": trial["attempt"],
                "is_anchor": file.parent.name.startswith("anchor-"),
                "started": datetime.fromtimestamp(trial["started_unix"], timezone.utc),
                "throughput_per_s": trial["throughput"],
                "response_time_mean_s": trial["response"],
                "failed": trial["failed"],
                "of_this_spec": cell.get("earlier", False) if isinstance(identity, str) else identity == cell.get("identity"),
            }
        )
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
    return f"""
        WITH kept AS (
            SELECT place.trial, place.recorded_at, {', '.join(own)},
                [struct_pack({server}) FOR s IN servers] AS servers
            FROM read_parquet([{files}], filename = true, union_by_name = true) AS read
            JOIN (VALUES {listed}) AS place(file, trial, recorded_at) ON read.filename = place.file
        ), timed AS (
            SELECT *, taken_ns - queued_ns AS queue_time_ns,
                coalesce(list_max([s.answered_ns FOR s IN servers]) - list_min([s.sent_ns FOR s IN servers]), 0) AS server_time_ns,
                replied_ns - received_ns AS response_time_ns
            FROM kept
        )
        SELECT *, response_time_ns - queue_time_ns - server_time_ns AS own_time_ns FROM timed"""
