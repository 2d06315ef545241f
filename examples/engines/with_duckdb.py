"""DuckDB: `with_duckdb.py FILE|GLOB`. The views of views.sql over Parquet files, of which only what is asked for is read."""

import pathlib
import sys

import duckdb

import told

PARTS = """
CREATE OR REPLACE TEMPORARY VIEW parts AS
SELECT * EXCLUDE (given_ns), least(given_ns, response_ns - queue_ns) AS server_ns, response_ns - queue_ns - least(given_ns, response_ns - queue_ns) AS own_ns
FROM (SELECT operation, outcome, received, replied, greatest(replied - received, 0) AS response_ns,
             least(greatest(taken - queued, 0), greatest(replied - received, 0)) AS queue_ns,
             coalesce(greatest(list_max([s.answered FOR s IN servers]) - list_min([s.sent FOR s IN servers]), 0), 0) AS given_ns
      FROM read_parquet('{}', hive_partitioning = true) WHERE station = 0)
"""


def figures(path):
    database = duckdb.connect()
    database.execute(PARTS.format(path))
    database.execute((pathlib.Path(__file__).parent / "views.sql").read_text())
    table = lambda name: database.sql(f"SELECT * FROM {name}").fetchall()
    return told.of_tables(table("operations"), table("breakdown"), table("percentiles"))


if __name__ == "__main__":
    told.show(figures(sys.argv[1]))
