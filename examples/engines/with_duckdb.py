"""DuckDB: `with_duckdb.py FILE|GLOB`. The views of views.sql over Parquet files, of which only what is asked for is read."""

import pathlib
import sys

import duckdb

import told

VIEWS = """
CREATE OR REPLACE TEMPORARY VIEW rows AS SELECT * FROM read_parquet('{}', hive_partitioning = true) WHERE station = 0;

CREATE OR REPLACE TEMPORARY VIEW parts AS
SELECT * EXCLUDE (given_ns), least(given_ns, response_ns - queue_ns) AS server_ns, response_ns - queue_ns - least(given_ns, response_ns - queue_ns) AS own_ns
FROM (SELECT operation, outcome, received, queued, taken, replied, busy_workers, greatest(replied - received, 0) AS response_ns,
             least(greatest(taken - queued, 0), greatest(replied - received, 0)) AS queue_ns,
             coalesce(greatest(list_max([s.answered FOR s IN servers]) - list_min([s.sent FOR s IN servers]), 0), 0) AS given_ns
      FROM rows);

CREATE OR REPLACE TEMPORARY VIEW asked AS
SELECT one.server, one.outcome, one.sent, one.answered FROM (SELECT unnest(servers) AS one FROM rows);
"""


def figures(path):
    database = duckdb.connect()
    database.execute(VIEWS.format(path))
    database.execute((pathlib.Path(__file__).parent / "views.sql").read_text())
    return told.of_tables(lambda name: database.sql(f"SELECT * FROM {name}").fetchall())


if __name__ == "__main__":
    told.show(figures(sys.argv[1]))
