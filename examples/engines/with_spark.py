"""Spark: `with_spark.py FILE|FOLDER [MASTER]`. The views of views.sql; a folder of days and hours is read by as many tasks as it has files."""

import pathlib
import sys

from pyspark.sql import SparkSession

import told

PARTS = """
CREATE OR REPLACE TEMPORARY VIEW parts AS
SELECT operation, outcome, received, replied, response_ns, queue_ns, least(given_ns, response_ns - queue_ns) AS server_ns,
       response_ns - queue_ns - least(given_ns, response_ns - queue_ns) AS own_ns
FROM (SELECT operation, outcome, received, replied, greatest(replied - received, 0) AS response_ns,
             least(greatest(taken - queued, 0), greatest(replied - received, 0)) AS queue_ns,
             coalesce(greatest(array_max(servers.answered) - array_min(servers.sent), 0), 0) AS given_ns
      FROM rows WHERE station = 0) AS stamped
"""


def figures(path, master="local[2]"):
    spark = SparkSession.builder.master(master).appName("krarup").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", 4).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.read.parquet(path).createOrReplaceTempView("rows")
    views = (pathlib.Path(__file__).parent / "views.sql").read_text()
    lines = [line for line in views.splitlines() if not line.startswith("--")]
    for statement in [PARTS, *"\n".join(lines).split(";")]:
        if statement.strip():
            spark.sql(statement)
    table = lambda name: [tuple(row) for row in spark.sql(f"SELECT * FROM {name}").collect()]
    found = told.of_tables(table("operations"), table("breakdown"), table("percentiles"))
    spark.stop()
    return found


if __name__ == "__main__":
    told.show(figures(*sys.argv[1:]))
