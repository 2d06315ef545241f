"""Polars: `with_polars.py FILE|GLOB`. A lazy frame over Parquet files, of which only the columns and groups that are asked for are read."""

import sys

import polars as pl

import told


def parts(path):
    """A row for each request of station 0, with its four times in nanoseconds."""
    rows = pl.scan_parquet(path).filter(pl.col("station") == 0)
    answered = pl.col("servers").list.eval(pl.element().struct.field("answered")).list.max()
    sent = pl.col("servers").list.eval(pl.element().struct.field("sent")).list.min()
    rows = rows.select(
        "operation",
        "outcome",
        "received",
        "replied",
        response=pl.max_horizontal(pl.col("replied") - pl.col("received"), 0),
        waited=pl.max_horizontal(pl.col("taken") - pl.col("queued"), 0),
        given=pl.max_horizontal(answered - sent, 0).fill_null(0),
    )
    rows = rows.with_columns(queue=pl.min_horizontal("waited", "response"))
    rows = rows.with_columns(server=pl.min_horizontal("given", pl.col("response") - pl.col("queue")))
    return rows.with_columns(own=pl.col("response") - pl.col("queue") - pl.col("server"))


def bucket(ns):
    """The greatest value of the bucket of HdrHistogram with three digits."""
    value = pl.min_horizontal(ns, 100_000_000_000)
    # The logarithm of a power of two may come out a little below the whole number; that of a value below 2^37 and below a power of two by 1 is further away.
    width = 2 ** (pl.max_horizontal(value, 2048).log(2) - 10 + 1e-12).floor().cast(pl.Int64)
    return pl.when(value < 2048).then(value).otherwise(value - value % width + width - 1)


def figures(path):
    rows = parts(path)
    first, last = rows.select(pl.min("received"), last=pl.max("replied")).collect().row(0)
    rows = rows.filter((pl.col("replied") >= first) & (pl.col("replied") < last))
    rows = pl.concat([rows, rows.with_columns(operation=pl.lit("all"))])
    sums = {}
    added = [pl.sum(quantity) for quantity in told.QUANTITIES] + [pl.max(quantity).name.suffix("_max") for quantity in told.QUANTITIES]
    for row in rows.group_by("operation").agg(pl.len(), (pl.col("outcome") != "ok").sum(), *added).collect().rows(named=True):
        of = {quantity: [row[quantity], row[f"{quantity}_max"], {}] for quantity in told.QUANTITIES}
        sums[row["operation"]] = {"requests": row["len"], "errors": row["outcome"], **of}
    for quantity in told.QUANTITIES:
        for operation, top, count in rows.group_by("operation", bucket(pl.col(quantity)).alias("top")).len().collect().rows():
            sums[operation][quantity][2][top] = count
    return told.of_sums(sums, last - first)


if __name__ == "__main__":
    told.show(figures(sys.argv[1]))
