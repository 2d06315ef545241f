"""The package as it is installed: every function, in every form, on an experiment that is run here in some seconds."""

import json
import pathlib
import shutil
import signal
import subprocess
import sys
import sysconfig
from importlib import metadata

import duckdb
import krarup
import nbclient
import nbformat
import pyarrow
import pytest
from matplotlib import pyplot
from pyarrow import csv, parquet

NOTEBOOKS = sorted((pathlib.Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
SPEC = """
title = "workers and clients"
repetitions = { min = 2 }
phases = { warm_up = "50ms", measure = "200ms" }
data = ["--keys", "500", "--data-size", "100"]

[[factor]]
name = "workers"
levels = [1, 8]

[[factor]]
name = "clients"
levels = [2, 8]

[populate]
[stations.servers]
program = "cache"
count = 2
[stations.middleware]
program = "proxy"
flags = ["--workers", "$workers", "--rows"]
[stations.clients]
program = "load"
flags = ["--ratio", "1:10", "--connections", "$clients"]
"""
NETWORK = {
    "name": "one queue",
    "station": [{"name": "server"}],
    "class": [{"name": "jobs", "rate": 0.5, "path": [{"at": "server", "service": "1 s"}]}],
}


@pytest.fixture(scope="session")
def experiment(tmp_path_factory):
    return krarup.run(SPEC, out=tmp_path_factory.mktemp("experiment") / "results", show=False)


def records(relation):
    """The rows of a relation in any form, as dictionaries."""
    if hasattr(relation, "collect"):
        return relation.collect().to_dicts()
    if hasattr(relation, "to_dict"):
        return relation.to_dict("records")
    table = relation if hasattr(relation, "to_pylist") else relation.to_arrow_table()
    return table.to_pylist()


@pytest.mark.parametrize("table", ["results", "cells", "trials", "rows"])
def test_each_table_is_the_same_in_every_form(experiment, table):
    forms = {engine: getattr(krarup, table)(experiment.path, engine) for engine in krarup.tables.ENGINES}
    assert [type(form).__module__.split(".")[0].lstrip("_") for form in forms.values()] == ["duckdb", "polars", "pyarrow", "pandas"]
    first, *others = ([sorted(str(row[c]) for c in ("trial", "repetition", "received_ns", "quantity", "workers", "clients") if c in row) for row in records(form)] for form in forms.values())
    assert len(first) > 0
    assert all(sorted(other) == sorted(first) for other in others)


def test_cells_say_what_the_report_says(experiment):
    cells = {(c["workers"], c["clients"]): c for c in records(experiment.cells("arrow"))}
    assert set(cells) == {(1, 2), (1, 8), (8, 2), (8, 8)}
    drawn = {(int(r["series"].removeprefix("workers ")), r["clients"]): r for r in records(experiment.figure_data("throughput-and-response-time", "arrow"))}
    for key, cell in cells.items():
        assert cell["throughput_per_s"] == drawn[key]["throughput_per_s"] > 0
        assert cell["response_time_mean_s"] == drawn[key]["response_time_mean_s"] > 0
        assert cell["throughput_per_s_n"] == 2 and cell["throughput_per_s_low"] < cell["throughput_per_s"] < cell["throughput_per_s_high"]
        assert cell["failed_requests"] == 0


def test_results_are_the_cells_in_one_column(experiment):
    found = {(r["workers"], r["clients"]): r["value"] for r in records(experiment.results("arrow")) if (r["quantity"], r["statistic"]) == ("response_time", "p99")}
    cells = {(c["workers"], c["clients"]): c["response_time_p99_s"] for c in records(experiment.cells("arrow"))}
    assert found == cells


def test_trials_are_all_there_and_of_this_spec(experiment):
    trials = [trial for trial in records(experiment.trials("arrow")) if trial["failed"] is None]
    assert len(trials) == 8 and all(trial["of_this_spec"] and trial["in_figures"] for trial in trials)
    assert all((experiment.path / trial["trial"]).is_dir() and trial["started"].year >= 2024 for trial in trials)


@pytest.mark.parametrize("table, which", [("cells", ("workers", "clients")), ("trials", ("workers", "clients", "repetition"))])
def test_what_is_called_as_in_the_reports_table_is_the_same_number(experiment, table, which):
    def by_key(rows):
        return {tuple(row[name] for name in which): row for row in rows}

    of_report = by_key(records(csv.read_csv(experiment.path / f"{table}.csv")))
    ours = by_key(row for row in records(getattr(experiment, table)("arrow")) if row.get("failed") is None)
    assert set(ours) == set(of_report)
    for key, row in ours.items():
        both = [name for name in row if name in of_report[key]]
        assert {*which, "throughput_per_s", "response_time_mean_s"} <= set(both)
        assert {name: row[name] for name in both} == {name: of_report[key][name] for name in both}
    assert table == "trials" or {"repetitions", "throughput_per_s_low", "throughput_per_s_n", "hit_ratio"} < set(both)


def copied(experiment, folder, change):
    """A directory with what tables are made from, changed."""
    for name in ("results.json", "identities.json", "trials/*/*/trial.json"):
        for file in experiment.path.glob(name):
            said = json.loads(file.read_text())
            change(said)
            copy = folder / file.relative_to(experiment.path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(json.dumps(said))
    return krarup.Experiment(folder)


def test_an_interval_ends_at_zero_and_windows_are_no_runs(experiment, tmp_path):
    def change(said):
        if "title" in said:
            throughput = said["cells"][0]["throughput"]
            throughput |= {"interval": {**throughput["interval"], "low": -2100.0}, "n": 60, "basis": "windows"}

    changed = copied(experiment, tmp_path, change)
    cell = records(changed.cells("arrow"))[0]
    assert (cell["throughput_per_s_low"], cell["throughput_per_s_n"], cell["repetitions"]) == (0.0, 60, 2)
    estimate = records(changed.results("arrow"))[0]
    assert (estimate["quantity"], estimate["low"], estimate["n"], estimate["basis"]) == ("throughput", 0.0, 60, "windows")


@pytest.mark.parametrize("table, factor", [("results", "n"), ("cells", "Hit_Ratio"), ("trials", "attempt")])
def test_a_factor_that_is_called_as_a_column_has_one_of_its_own(experiment, tmp_path, table, factor):
    def change(said):
        for levels in [said["levels"]] if "levels" in said else [cell["factors"] for cell in said["cells"]] if "title" in said else []:
            levels[0][0] = factor

    rows = records(getattr(copied(experiment, tmp_path, change), table)("arrow"))
    before = [row for row in records(getattr(experiment, table)("arrow")) if not row.get("failed")]
    assert [row[f"factor_{factor}"] for row in rows] == [row["workers"] for row in before]
    assert [row[factor.lower()] for row in rows] == [row[factor.lower()] for row in before]


def test_trials_have_the_reports_figures_or_none(experiment, tmp_path):
    def change(said):
        if "attempt" in said:
            # A tenth of the requests failed.
            said["throughput"] *= 0.9

    changed = copied(experiment, tmp_path, change)
    file = next(tmp_path.glob("trials/*/0/trial.json"))
    cell = file.parent.parent.name

    def kept(place, **changes):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "trial.json").write_text(json.dumps({**json.loads(file.read_text()), **changes}))
        return place

    unmeasured = kept(f"failed/{cell}/0-0", failed="the servers did not start", throughput=0.0, response=0.0)
    refused = kept(f"failed/{cell}/0-1", failed="errors == 0 does not hold")
    beyond, anchor = kept(f"trials/{cell}/7", repetition=7), kept(f"trials/{cell}/anchor-0-0", repetition=1 << 24)
    trials = {trial["trial"]: trial for trial in records(changed.trials("arrow"))}
    said = {key: [trials[key][name] for name in ("throughput_per_s", "answered_well_per_s", "response_time_mean_s")] for key in trials}
    own = json.loads(file.read_text())
    assert said[unmeasured] == [None, None, None]
    assert said[refused] == said[beyond] == said[anchor] == [None, own["throughput"], own["response"]]
    assert trials[anchor]["is_anchor"] and trials[anchor]["repetition"] is None
    assert all(trials[place]["of_this_spec"] and not trials[place]["in_figures"] for place in (beyond, anchor))
    assert sum(trial["in_figures"] for trial in trials.values()) == 8
    of_cells = {(c["workers"], c["clients"]): c["throughput_per_s"] for c in records(changed.cells("arrow"))}
    for (workers, clients), throughput in of_cells.items():
        runs = [t["throughput_per_s"] for t in trials.values() if (t["workers"], t["clients"]) == (workers, clients) and t["in_figures"]]
        assert sum(runs) / len(runs) == pytest.approx(throughput)


def test_rows_are_lazy_typed_and_add_up(experiment):
    rows = experiment.rows()
    kept = duckdb.sql("SELECT trial, count(*) AS count FROM rows GROUP BY ALL").fetchall()
    for trial, count in kept:
        folder = experiment.path / trial / "middleware/1"
        # The warm-up has rows too; the summary was begun anew after it.
        assert count == parquet.read_metadata(folder / "rows.parquet").num_rows > json.loads((folder / "summary.json").read_text())["all"]["count"]
    wrong = duckdb.sql("SELECT count(*) FROM rows WHERE queue_time_ns + server_time_ns + own_time_ns <> response_time_ns OR own_time_ns < 0").fetchall()
    assert wrong == [(0,)]
    types = dict(zip(rows.columns, map(str, rows.types)))
    assert types["received_ns"] == types["own_time_ns"] == "BIGINT" and types["busy_workers"] == types["key"] == "BIGINT" and types["time"] == "TIMESTAMP WITH TIME ZONE" and types["worker_was_idle"] == "BOOLEAN"
    # Times have their unit in the name, in the list of servers too.
    assert "sent_ns" in types["servers"] and not {"received", "queued", "taken", "replied"} & set(types)
    assert {r["recorded_at"] for r in rows.limit(5).to_arrow_table().to_pylist()} == {"middleware"}


def test_files_that_rotate_are_one_table(experiment, tmp_path):
    file = next(experiment.path.rglob("rows.parquet"))
    for hour in ("04", "05"):
        folder = tmp_path / "rows" / "date=2026-11-25" / f"hour={hour}"
        folder.mkdir(parents=True)
        shutil.copy(file, folder / f"rows-20261125T{hour}0000Z-here.parquet")
    (folder / ".rows-20261125T051000Z-here.parquet.partial").write_bytes(b"PAR1")
    rows = krarup.rows(tmp_path)
    assert rows.count("*").fetchall()[0][0] == 2 * parquet.read_metadata(file).num_rows
    assert {row["trial"] for row in rows.limit(5).to_arrow_table().to_pylist()} == {"rows"}


@pytest.mark.parametrize("folder", ["trials/keys=77/0/middleware/1", "operation=x/servers=3"])
def test_a_folder_that_is_called_as_a_column_changes_no_row(experiment, tmp_path, folder):
    file = next(experiment.path.rglob("rows.parquet"))
    (tmp_path / folder).mkdir(parents=True)
    shutil.copy(file, tmp_path / folder)

    def values(path):
        return sorted(map(str, krarup.rows(path, "arrow").select(["keys", "operation", "servers"]).to_pylist()))

    assert values(tmp_path) == values(file) != []


def test_one_file_of_rows_is_a_table_too(experiment):
    file = next(experiment.path.rglob("rows.parquet"))
    assert krarup.rows(file).count("*").fetchall()[0][0] == parquet.read_metadata(file).num_rows


@pytest.mark.parametrize("name", ["x; SELECT 1 --", "servers.x := read_text('/etc/hostname')"])
def test_a_column_whose_name_is_a_statement_is_refused(name, tmp_path):
    columns = f"received\ti64\tns\twhen\n{name}\ti64\t\twhat"
    table = pyarrow.table({"received": [1]}, metadata={"krarup.schema_version": "3", "krarup.columns": columns})
    parquet.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(krarup.KrarupError, match="names a column") as failed:
        krarup.rows(tmp_path)
    assert failed.value.hint


def test_figures_are_the_reports_own_and_matplotlibs(experiment):
    page = experiment.figure("throughput-and-response-time")
    assert page.text.count("<figure") == 1 and "<nav" not in page.text and "uPlot" in page.text and len(page.text) < len(experiment.report().text)
    # No page reaches the notebook: there is no allow-same-origin.
    assert page._repr_html_().startswith('<iframe sandbox="allow-scripts allow-downloads" srcdoc=') and "&lt;figure" in page._repr_html_()
    axes = experiment.plot()
    assert [panel.get_ylabel() for panel in axes] == ["throughput_per_s", "response_time_mean_s", "processors_busy_cores"]
    assert all(len(panel.get_legend().get_texts()) == 2 for panel in axes)
    given = pyplot.subplots(2, 2)[1]
    assert experiment.plot(axes=given) == list(given.flat)
    with pytest.raises(krarup.KrarupError, match="3 quantities, and there are 1 axes"):
        experiment.plot(axes=given[0, 0])
    with pytest.raises(krarup.KrarupError, match="throughput-and-response-time"):
        experiment.figure("nothing")


def test_a_model_answers_by_theory_and_by_simulation():
    model = krarup.model(NETWORK)
    [station] = model.solve("arrow", table="station").to_pylist()
    assert station["utilization"] == pytest.approx(0.5)
    assert model.solve()["points"][0]["classes"][0]["response"] == pytest.approx(2.0)
    simulated = model.simulate(seed=3, precision=0.05)["classes"][0]["response"]
    assert simulated["interval"]["low"] < simulated["value"] < simulated["interval"]["high"]
    assert simulated["value"] == pytest.approx(2.0, rel=0.1)
    twice = {row["what"]: row for row in model.whatif({"server.speed": 2}, "arrow").to_pylist()}
    assert twice["utilization"]["after"] == pytest.approx(0.25)
    assert model.bounds("arrow").to_pylist()[0]["capacity_per_s"] == pytest.approx(1.0)


@pytest.mark.parametrize("form", ["records", "arrow", "pandas", "polars", "duckdb"])
def test_a_model_is_calibrated_on_rows_in_any_form(form):
    measured = [
        {"population": n, "workers": w, "throughput": x, "response_ms": r, "wait_ms": q}
        for n, w, x, r, q in [(3, 4, 5387.0, 0.33, 0.0), (72, 4, 5465.0, 12.77, 12.04), (192, 4, 5606.5, 33.69, 32.98), (3, 64, 5600.2, 0.34, 0.0), (72, 64, 5608.8, 9.19, 0.0), (192, 64, 5483.2, 29.65, 18.03)]
    ]
    rows = measured if form == "records" else krarup.tables.of_records(measured, form)
    model = krarup.calibrate(rows, cores=2)
    [said] = model.predict([72], workers=[16], engine="arrow").to_pylist()
    assert said["low_per_s"] < said["throughput_per_s"] < said["high_per_s"]
    assert said["throughput_per_s"] == pytest.approx(5603, rel=0.1)
    assert model.explain()


def test_an_experiment_is_rows_for_a_model(experiment):
    assert krarup.calibrate(experiment, cores=2).calibration["rows"]
    rows = list(krarup.models.measured(experiment))
    for row, cell in zip(rows, experiment.found["cells"], strict=True):
        assert (row["think_s"], row["client_response_s"]) == (cell["think"], cell["response"]["mean"]["value"])
        assert [row[f"{name}_s"] for name in ("p50", "p90", "p99")] == [cell["response"][name]["value"] for name in ("p50", "p90", "p99")]
        assert row["response_s"] == cell["middleware"]["response"]["mean"]["value"]
        ends = cell["throughput"]["interval"]
        assert row["half_width"] * row["throughput"] == pytest.approx((ends["high"] - ends["low"]) / 2)


def test_a_model_knows_the_processors_of_the_middleware_and_when_a_worker_is_free(experiment, tmp_path, monkeypatch):
    assert experiment.found["middleware_cores"] == experiment.found["environment"]["cores"]

    def change(said):
        if "title" in said:
            said["middleware_cores"] = 8
            for cell in said["cells"]:
                cell["middleware"]["free_when_answered"] = True

    changed = copied(experiment, tmp_path, change)
    for row, cell in zip(krarup.models.measured(changed), experiment.found["cells"], strict=True):
        assert row["response_s"] == cell["middleware"]["queue"]["mean"]["value"] + cell["middleware"]["server"]["mean"]["value"]
    asked = []
    monkeypatch.setattr(krarup.models, "call", lambda *words: asked.extend(words) or "{}")
    krarup.calibrate(changed)
    assert asked[asked.index("--cores") + 1] == "8"


@pytest.mark.parametrize("middleware, why", [(None, "has no middleware"), ({"workers": None}, "how many workers")])
def test_an_experiment_without_workers_is_no_rows_for_a_model(experiment, tmp_path, middleware, why):
    found = experiment.found
    found["cells"][0]["middleware"] = middleware
    (tmp_path / "results.json").write_text(json.dumps(found))
    with pytest.raises(krarup.KrarupError, match=why) as failed:
        krarup.calibrate(krarup.Experiment(tmp_path))
    assert "krarup model calibrate" in failed.value.hint


@pytest.mark.parametrize("change, why", [({"open": True}, "was open"), ({"middleware": {"middlewares": 2}}, "different numbers of middlewares: 1, 2")])
def test_an_experiment_of_another_load_or_of_other_middlewares_is_no_rows_for_a_model(experiment, tmp_path, change, why):
    found = experiment.found
    found["cells"][0] |= {**change, "middleware": {**found["cells"][0]["middleware"], **change.get("middleware", {})}}
    (tmp_path / "results.json").write_text(json.dumps(found))
    with pytest.raises(krarup.KrarupError, match=why) as failed:
        krarup.calibrate(krarup.Experiment(tmp_path))
    assert failed.value.hint


@pytest.mark.parametrize("earlier", [True, False, None])
def test_a_trial_of_an_earlier_build_counts_where_the_directory_says_so(experiment, tmp_path, earlier):
    def change(said):
        if "attempt" in said:
            said["identity"] = "0123"
        elif "title" not in said:
            said["cells"] = {name: {**cell, "earlier": earlier} for name, cell in said["cells"].items()}

    copied(experiment, tmp_path, change)
    if earlier is None:
        # Earlier builds wrote no identities: what has the levels of a cell belongs to it.
        (tmp_path / "identities.json").unlink()
    trials = records(krarup.trials(tmp_path, "arrow"))
    assert trials and all(trial["of_this_spec"] is (earlier is not False) for trial in trials)


def test_what_cannot_be_done_says_what_to_do(tmp_path):
    with pytest.raises(krarup.KrarupError) as failed:
        krarup.call("model", "solve", tmp_path / "none.toml")
    assert failed.value.code == 2 and "none.toml" in failed.value.what and failed.value.hint
    for wrong in (lambda: krarup.cells(tmp_path), lambda: krarup.rows(tmp_path), lambda: krarup.model("none"), lambda: krarup.rows(tmp_path, "excel")):
        with pytest.raises(krarup.KrarupError) as failed:
            wrong()
        assert failed.value.hint
    with pytest.raises(krarup.KrarupError, match="0 and so on|below|one of"):
        krarup.model(NETWORK).solve("arrow", table="nothing")


@pytest.mark.parametrize("name", ["none", "no-program"])
def test_a_program_that_cannot_be_run_is_named_with_what_to_do(tmp_path, monkeypatch, name):
    (tmp_path / "no-program").write_text("")
    monkeypatch.setenv("KRARUP", str(tmp_path / name))
    with pytest.raises(krarup.KrarupError, match=f"{name} cannot be run: ") as failed:
        krarup.call("--version")
    assert "KRARUP" in failed.value.hint


def test_rows_for_a_model_may_lack_a_figure_and_are_not_none():
    assert krarup.models.as_csv([{"workers": 1}, {"workers": 2, "wait_s": 0.5}]).splitlines() == ["workers,wait_s", "1,", "2,0.5"]
    with pytest.raises(krarup.KrarupError, match="there are no rows") as failed:
        krarup.calibrate([])
    assert failed.value.hint


def test_texts_are_utf_8_whatever_the_locale_says(experiment):
    script = """
import krarup, sys, warnings
warnings.simplefilter("error", EncodingWarning)
found = krarup.Experiment(sys.argv[1])
assert found.title and found.report() and found.figures
krarup.model('name = "q"\\n[[station]]\\nname = "s"\\n')
krarup.call("--version")
"""
    run = subprocess.run([sys.executable, "-X", "warn_default_encoding", "-c", script, str(experiment.path)], capture_output=True, encoding="utf-8")
    assert run.returncode == 0, run.stderr


def test_an_interrupted_experiment_ends_what_it_started(tmp_path):
    script = "import krarup, sys; krarup.run(sys.argv[1], out=sys.argv[2])"
    spec = SPEC.replace('measure = "200ms"', 'measure = "30s"')
    process = subprocess.Popen([sys.executable, "-c", script, spec, str(tmp_path / "results")], stderr=subprocess.PIPE, text=True)
    while "servers: 2" not in (line := process.stderr.readline()):
        assert line, "it ended before it began"

    def running():
        # The experiment, and its proxy, whose records go there.
        return subprocess.run(["pgrep", "--full", f"^[^ ]* (run|proxy) .*{tmp_path}"], capture_output=True, text=True).stdout.split()

    assert running()
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=60)[1]
    assert running() == []


def test_the_program_is_the_one_of_the_wheel():
    assert pathlib.Path(krarup.program()) == pathlib.Path(sysconfig.get_path("scripts")) / "krarup"
    assert pathlib.Path(krarup.program()).read_bytes()[:4] == b"\x7fELF"
    assert krarup.call("--version").split()[1] == metadata.version("krarup")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    shown = [output for cell in code for output in cell.outputs]
    assert all(cell.execution_count for cell in code)
    kinds = {kind for output in shown for kind in output.get("data", {})}
    assert {"image/png", "text/html"} <= kinds, f"a figure and a table: {kinds}"
    assert not [output for output in shown if output.output_type == "error"]


def test_there_are_three_notebooks():
    assert len(NOTEBOOKS) == 3
