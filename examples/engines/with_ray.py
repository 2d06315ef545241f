"""Ray: `with_ray.py FILE|FOLDER`. Each file is a task; what tasks give is small, and added up."""

import sys

import pandas
import ray

import frames
import told


@ray.remote
def span(file):
    return frames.span(pandas.read_parquet(file, columns=frames.COLUMNS, partitioning=None))


@ray.remote
def sums(file, first, last):
    return frames.sums(pandas.read_parquet(file, columns=frames.COLUMNS, partitioning=None), first, last)


def figures(path):
    spans = [found for found in ray.get([span.remote(file) for file in frames.files(path)]) if found]
    first, last = min(begun for begun, _ in spans), max(ended for _, ended in spans)
    return told.of_sums(frames.added(ray.get([sums.remote(file, first, last) for file in frames.files(path)])), last - first)


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, logging_level="error")
    told.show(figures(sys.argv[1]))
