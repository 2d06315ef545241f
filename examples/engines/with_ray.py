"""Ray: `with_ray.py FILE|FOLDER`. Each file is a task; what tasks give is small, and added up."""

import sys

import ray

import frames
import told

span, sums = ray.remote(frames.span_of), ray.remote(frames.sums_of)


def figures(path):
    files = frames.files(path)
    first, last = frames.whole(ray.get([span.remote(file) for file in files]))
    return told.of_sums(frames.added(ray.get([sums.remote(file, first, last) for file in files])), last - first)


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, logging_level="error")
    told.show(figures(sys.argv[1]))
