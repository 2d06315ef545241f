"""Spark: `with_spark.py FILE|FOLDER [MASTER]`. The views of views.sql; a folder of days and hours is read by as many tasks as it has files."""

import pathlib
import sys

from pyspark.sql import SparkSession

import told

VIEWS = """
CREATE OR REPLACE TEMPORARY VIEW parts AS
SELECT operation, outcome, received, queued, taken, replied, busy_workers, response_ns, queue_ns, least(given_ns, response_ns - queue_ns) AS server_ns,
       response_ns - queue_ns - least(given_ns, response_ns - queue_ns) AS own_ns
FROM (SELECT operation, outcome, received, queued, taken, replied, busy_workers, greatest(replied - received, 0) AS response_ns,
             least(greatest(taken - queued, 0), greatest(replied - received, 0)) AS queue_ns,
             coalesce(greatest(array_max(servers.answered) - array_min(servers.sent), 0), 0) AS given_ns
      FROM rows) AS stamped;

CREATE OR REPLACE TEMPORARY VIEW asked AS
SELECT one.server, one.outcome, one.sent, one.answered FROM (SELECT explode(servers) AS one FROM rows) AS each_server;
"""


def figures(path, master="local[2]"):
    spark = SparkSession.builder.master(master).appName("krarup").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", 4).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.read.parquet(path).where("station = 0").createOrReplaceTempView("rows")
    views = VIEWS + (pathlib.Path(__file__).parent / "views.sql").read_text()
    lines = [line for line in views.splitlines() if not line.startswith("--")]
    for statement in "\n".join(lines).split(";"):
        if statement.strip():
            spark.sql(statement)
    found = told.of_tables(lambda name: [tuple(row) for row in spark.sql(f"SELECT * FROM {name}").collect()])
    spark.stop()
    return found


if __name__ == "__main__":
    told.show(figures(*sys.argv[1:]))
