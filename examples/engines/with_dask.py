"""Dask: `with_dask.py FILE|FOLDER`. Each file is a task; what tasks give is small, and added up."""

import sys

import dask

import frames
import told

span, sums = dask.delayed(frames.span_of), dask.delayed(frames.sums_of)


def figures(path):
    files = frames.files(path)
    first, last = frames.whole(dask.compute(*[span(file) for file in files]))
    return told.of_sums(frames.added(dask.compute(*[sums(file, first, last) for file in files])), last - first)


if __name__ == "__main__":
    told.show(figures(sys.argv[1]))
