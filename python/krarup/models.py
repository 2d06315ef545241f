"""Models: what a system of queues will do. Times are seconds, rates per second.

Each question answers with a dictionary (the program's JSON), or, where an engine is named, with one of the tables that the program prints; which one,
its first column says, or its number: ``solve("pandas")`` is that of classes, ``solve("pandas", table="station")`` that of stations.
"""

import csv
import io
import json
import pathlib
import tempfile

from krarup.experiments import Experiment
from krarup.program import KrarupError, call
from krarup.tables import checked, of_csv


class Model:
    """A network of queues, or a model that was calibrated on measured rows."""

    def __init__(self, path, folder=None, calibration=None):
        # Who keeps the folder of a file that was made for this model.
        self.path, self._folder = pathlib.Path(path), folder
        #: What the calibration said, where the model comes from one.
        self.calibration = calibration

    def __repr__(self):
        return f"<krarup.Model {str(self.path)!r}>"

    def solve(self, engine=None, table=None, **flags):
        """Throughput and response time at every population, and each station: exactly where theory allows. Flags as ``krarup model solve --help``."""
        return self.ask("solve", engine, table, flags)

    def bounds(self, engine=None, table=None, **flags):
        """What no such network can exceed, and which station matters most."""
        return self.ask("bounds", engine, table, flags)

    def simulate(self, engine=None, table=None, **flags):
        """Simulates event by event until the intervals are narrow enough: ``seed=7, precision=0.005, max_events=1_000_000``."""
        return self.ask("simulate", engine, table, {"progress": "none", **flags})

    def whatif(self, changes, engine=None, table=None, **flags):
        """Changes something and solves before and after: ``{"workers.size": 128, "get.think": "1ms"}``."""
        words = [word for name, value in changes.items() for word in ("--change", f"{name}={value}")]
        return self.ask("whatif", engine, table, flags, words)

    def predict(self, population, workers, engine=None, table=None, **flags):
        """What a calibrated model says of other configurations: ``predict([96, 192], workers=[64])``."""
        return self.ask("predict", engine, table, {"population": population, "workers": workers, **flags})

    def explain(self, engine=None, table=None, **flags):
        """What was fitted, where the knee is, what would limit next."""
        return self.ask("explain", engine, table, flags)

    def ask(self, job, engine, table, flags, words=()):
        """A job of ``krarup model`` on this file."""
        if engine is None:
            return json.loads(call("model", job, self.path, *words, *on_the_line(flags), "--json"))
        checked(engine)
        tables = call("model", job, self.path, *words, *on_the_line(flags), "--csv").strip().split("\n\n")
        names = [text.split(",", 1)[0] for text in tables]
        number = names.index(table) if table in names else table or 0
        if number not in range(len(tables)):
            raise KrarupError(f"there is no table {table!r}", f"a number below {len(tables)}, or one of {', '.join(dict.fromkeys(names))}")
        return of_csv(tables[number], engine)


def on_the_line(flags):
    """Flags as the command line has them: ``max_events=5`` is ``--max-events 5``, a list has commas, True is the flag alone."""
    for name, value in flags.items():
        if value is None or value is False:
            continue
        yield f"--{name.replace('_', '-')}"
        if isinstance(value, (list, tuple, range)):
            yield ",".join(map(str, value))
        elif value is not True:
            yield str(value)


def model(network):
    """A model of a network: a file, the text of one (TOML), a dictionary of the same keys, or a file that ``calibrate`` wrote."""
    if not isinstance(network, dict) and "\n" not in str(network):
        if not pathlib.Path(network).exists():
            raise KrarupError(f"there is no file {network}", "give a network file; `krarup model example` prints one")
        return Model(network)
    folder = tempfile.TemporaryDirectory(prefix="krarup-model-")
    is_json = isinstance(network, dict)
    path = pathlib.Path(folder.name) / ("network.json" if is_json else "network.toml")
    path.write_text(json.dumps(network) if is_json else network, encoding="utf-8")
    return Model(path, folder)


def calibrate(rows, out=None, **flags):
    """Makes a model of measured rows: population, workers, throughput, response time, waiting time.

    ``rows`` is a file or folder as ``krarup model calibrate`` takes it, an :class:`Experiment` of one workload, a table in any form, or a list of
    dictionaries. Times may have their unit in the name (``response_ms``), else ``unit="ms"`` says it. ``out`` keeps the model in a file.
    Of an experiment ``cores`` are the processors that its spec gives the middleware.
    """
    folder = tempfile.TemporaryDirectory(prefix="krarup-model-")
    path = pathlib.Path(out or pathlib.Path(folder.name) / "model.json")
    if isinstance(rows, Experiment):
        flags = {"cores": rows.found.get("middleware_cores") or None, **flags}
        rows = measured(rows)
    if not isinstance(rows, (str, pathlib.Path)):
        text = as_csv(rows)
        rows = pathlib.Path(folder.name) / "rows.csv"
        rows.write_text(text, encoding="utf-8")
    said = call("model", "calibrate", rows, "--out", path, *on_the_line(flags), "--json")
    return Model(path, folder, json.loads(said))


def measured(experiment):
    """The means of each cell over its repetitions, as rows of a model: those that the report's own predictions are made from."""
    cells = experiment.found["cells"]
    numbers = {cell["middleware"].get("middlewares") for cell in cells if cell["middleware"]} - {0, None}
    if len(numbers) > 1:
        what = f"cells have different numbers of middlewares: {', '.join(map(str, sorted(numbers)))}"
        raise KrarupError(f"{experiment.path}: {what}", "what one carries is no limit of two: calibrate those of each number by themselves")
    for cell in cells:
        if cell.get("open"):
            hint = "models of clients and workers are calibrated with clients that wait for their answers: leave --rate out"
            raise KrarupError(f"{experiment.path}: the load of a cell was open", hint)
        inside = cell["middleware"]
        if not inside or inside["workers"] is None:
            what = "has no middleware" if not inside else "does not say how many workers its middleware has"
            raise KrarupError(f"{experiment.path}: a cell {what}", f"`krarup model calibrate {experiment.path}` reads what the stations kept")
        clients = cell.get("response") or {}
        estimates = {"client_response_s": clients.get("mean"), **{f"{name}_s": clients.get(name) for name in ("p50", "p90", "p99")}}
        throughput, ends = cell["throughput"]["value"], cell["throughput"]["interval"]
        response, wait, server = (inside[name]["mean"]["value"] for name in ("response", "queue", "server"))
        yield {
            "population": cell["levels"]["clients"],
            "workers": inside["workers"],
            "throughput": throughput,
            "half_width": (ends["high"] - ends["low"]) / 2 / throughput if ends and throughput else None,
            # Until its worker was free: a broker's connection to its database is before the reply has left.
            "response_s": wait + server if inside.get("free_when_answered") else response,
            "wait_s": wait,
            "think_s": cell["think"],
            **{name: estimate["value"] if estimate else None for name, estimate in estimates.items()},
        }


def as_csv(rows):
    """A table in any form as text with commas."""
    if hasattr(rows, "to_arrow_table"):  # DuckDB
        rows = rows.to_arrow_table()
    if hasattr(rows, "collect"):  # Polars, lazy
        rows = rows.collect()
    if hasattr(rows, "to_csv"):  # pandas
        return rows.to_csv(index=False)
    if hasattr(rows, "to_dicts"):  # Polars
        rows = rows.to_dicts()
    if hasattr(rows, "to_pylist"):  # Arrow
        rows = rows.to_pylist()
    rows = list(rows)
    if not rows:
        raise KrarupError("there are no rows", "give one for each configuration that was measured")
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
