"""pandas: `with_pandas.py FILE|FOLDER`. All rows in memory."""

import sys

import pandas

import frames
import told


def figures(path):
    rows = pandas.read_parquet(path, columns=frames.COLUMNS)
    first, last = frames.span(rows)
    return told.of_sums(frames.sums(rows, first, last), last - first)


if __name__ == "__main__":
    told.show(figures(sys.argv[1]))
