"""What pandas, Dask and Ray have in common: a frame of rows becomes sums of whole numbers, and sums of parts add up."""

import glob
import os

import numpy
import pandas

import told

COLUMNS = ["station", "operation", "outcome", "received", "queued", "taken", "replied", "servers"]


def files(path):
    """The files that are whole: those being written begin with a dot."""
    return sorted(glob.glob(os.path.join(path, "**", "*.parquet"), recursive=True)) if os.path.isdir(path) else [path]


def read(file):
    """The rows of one file; the names of its folders say nothing that they do not."""
    return pandas.read_parquet(file, columns=COLUMNS, partitioning=None)


def span_of(file):
    """The first request and the last reply of one file."""
    return span(read(file))


def sums_of(file, first, last):
    """What the rows of one file add up to."""
    return sums(read(file), first, last)


def whole(spans):
    """The first request and the last reply of all files, of which some may have no row."""
    spans = [found for found in spans if found]
    return min(first for first, _ in spans), max(last for _, last in spans)


def times(rows):
    """The four times of each row, in nanoseconds."""
    response = numpy.maximum(rows.replied - rows.received, 0)
    queue = numpy.minimum(numpy.maximum(rows.taken - rows.queued, 0), response)
    given = [max(max(s["answered"] for s in servers) - min(s["sent"] for s in servers), 0) if len(servers) else 0 for servers in rows.servers]
    server = numpy.minimum(numpy.array(given, dtype="int64"), response - queue)
    return {"response": response, "queue": queue, "server": server, "own": response - queue - server}


def span(rows):
    """The first request and the last reply of some rows."""
    rows = rows[rows.station == 0]
    return (int(rows.received.min()), int(rows.replied.max())) if len(rows) else None


def buckets(values):
    """How many values lie in each bucket of HdrHistogram with three digits, by the bucket's greatest value."""
    values = numpy.minimum(numpy.asarray(values, dtype="int64"), 100_000_000_000)
    # frexp gives the number of bits of a whole number below 2^53 exactly.
    width = numpy.int64(1) << numpy.maximum(numpy.frexp(values.astype("float64"))[1] - 11, 0).astype("int64")
    tops, counts = numpy.unique(values - values % width + width - 1, return_counts=True)
    return dict(zip(tops.tolist(), counts.tolist()))


def sums(rows, first, last):
    """What the rows add up to, by operation and of all together."""
    rows = rows[(rows.station == 0) & (rows.replied >= first) & (rows.replied < last)].reset_index(drop=True)
    found, of = {}, times(rows)
    for name in ["all", *sorted(rows.operation.unique())]:
        here = rows.index if name == "all" else rows.index[rows.operation == name]
        if len(here):
            one = {q: (int(of[q][here].sum()), int(of[q][here].max()), buckets(of[q][here])) for q in told.QUANTITIES}
            found[name] = {"requests": len(here), "errors": int((rows.outcome[here] != "ok").sum()), **one}
    return found


def added(parts):
    """Sums of parts as those of the whole: in any order the same."""
    whole = {}
    for name, part in ((name, part) for sums in parts for name, part in sums.items()):
        one = whole.setdefault(name, {"requests": 0, "errors": 0, **{q: (0, 0, {}) for q in told.QUANTITIES}})
        one["requests"] += part["requests"]
        one["errors"] += part["errors"]
        for quantity in told.QUANTITIES:
            (total, greatest, counts), (more, longest, others) = one[quantity], part[quantity]
            one[quantity] = (total + more, max(greatest, longest), {top: counts.get(top, 0) + others.get(top, 0) for top in {**counts, **others}})
    return whole
