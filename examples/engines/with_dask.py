"""Dask: `with_dask.py FILE|FOLDER`. Each file is a task; what tasks give is small, and added up."""

import sys

import dask
import pandas

import frames
import told


@dask.delayed
def span(file):
    return frames.span(pandas.read_parquet(file, columns=frames.COLUMNS, partitioning=None))


@dask.delayed
def sums(file, first, last):
    return frames.sums(pandas.read_parquet(file, columns=frames.COLUMNS, partitioning=None), first, last)


def figures(path):
    spans = [found for found in dask.compute(*[span(file) for file in frames.files(path)]) if found]
    first, last = min(begun for begun, _ in spans), max(ended for _, ended in spans)
    return told.of_sums(frames.added(dask.compute(*[sums(file, first, last) for file in frames.files(path)])), last - first)


if __name__ == "__main__":
    told.show(figures(sys.argv[1]))
