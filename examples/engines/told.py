"""What each engine says of rows in the same form: the figures of `krarup analyze --json`, of station 0, by operation."""

import json

SHARES = (0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
QUANTITIES = ("response", "queue", "server", "own")


def of_tables(operations, breakdown, percentiles):
    """From the tables of views.sql, as rows of Python."""
    told = {name: {"requests": int(count), "errors": int(errors), "throughput": rate} for name, count, errors, rate in operations}
    for name, quantity, mean in breakdown:
        told[name].setdefault(quantity, {})["mean"] = mean
    for name, quantity, share, time in percentiles:
        told[name][quantity][f"p{float(share) * 100:g}"] = time
    return told


def of_sums(sums, span_ns):
    """From what parts of the rows add up to: `sums[operation]` has requests, errors and, of each quantity, (sum, greatest value, requests by bucket)."""
    told = {}
    for name, one in sums.items():
        requests = one["requests"]
        told[name] = {"requests": requests, "errors": one["errors"], "throughput": requests / (span_ns / 1e9)}
        for quantity in QUANTITIES:
            total, greatest, buckets = one[quantity]
            told[name][quantity] = {"mean": total / 1e9 / requests, **percentiles(buckets, requests, greatest)}
    return told


def percentiles(buckets, requests, greatest):
    """The first bucket with which each share is reached, and never more than the greatest value."""
    found, reached, ordered = {}, 0, iter(sorted(buckets.items()))
    for share in SHARES:
        wanted = max(-(-(share * requests) // 1), 1)
        while reached < wanted:
            top, count = next(ordered)
            reached += count
        found[f"p{share * 100:g}"] = min(top, greatest) / 1e9
    return found


def of_analysis(text):
    """From what `krarup analyze --json` printed."""
    told = {}
    for one in json.loads(text)[0]["stations"][0]["operations"]:
        told[one["operation"]] = {"requests": one["count"], "errors": one["errors"], "throughput": one["throughput"]["value"]}
        for quantity in QUANTITIES:
            spread = one[quantity]
            values = {f"p{share * 100:g}": found["value"] for share, found in zip(SHARES, spread["percentiles"])}
            told[one["operation"]][quantity] = {"mean": spread["mean"]["value"], **values}
    return told


def show(told):
    """Prints it as JSON."""
    print(json.dumps(told, indent=1, sort_keys=True))
