"""What each engine says of rows in the same form: the figures of `krarup analyze --json`, of station 0."""

import json

SHARES = (0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
QUANTITIES = ("response", "queue", "server", "own")


def of_tables(table):
    """From the tables of views.sql: `table(name)` gives one as rows of Python."""
    operations = {name: {"requests": int(count), "errors": int(errors), "throughput": rate} for name, count, errors, rate in table("operations")}
    for name, quantity, mean in table("breakdown"):
        operations[name].setdefault(quantity, {})["mean"] = mean
    for name, quantity, share, time in table("percentiles"):
        operations[name][quantity][percentile(share)] = time
    servers, laws, settled = {}, {}, {}
    for server, count, share, errors, mean, *times in table("servers"):
        time = {"mean": mean, **{percentile(share): time for share, time in zip(SHARES, times)}}
        servers[str(server)] = {"requests": int(count), "share": share, "errors": int(errors), "time": time}
    for place, arrivals, completions, time, by_law, present, difference in table("laws"):
        laws[place] = law(arrivals, completions, time, by_law, present, difference)
    for series, word, after, cut_off, enough in table("settled"):
        settled[series] = {"settled": word, "after": after, "cut off": cut_off, "enough": enough}
    windows = [[start, length, int(count), response] for _, start, length, count, response in sorted(table("windows"))]
    return {"operations": operations, "servers": servers, "laws": laws, "settled": settled, "windows": windows}


def of_sums(sums, span_ns):
    """From what parts of the rows add up to: `sums[operation]` has requests, errors and, of each quantity, (sum, greatest value, requests by bucket)."""
    told = {}
    for name, one in sums.items():
        requests = one["requests"]
        told[name] = {"requests": requests, "errors": one["errors"], "throughput": requests / (span_ns / 1e9)}
        for quantity in QUANTITIES:
            total, greatest, buckets = one[quantity]
            told[name][quantity] = {"mean": total / 1e9 / requests, **percentiles(buckets, requests, greatest)}
    return {"operations": told}


def percentile(share):
    """What that of a share is called."""
    return f"p{float(share) * 100:g}"


def percentiles(buckets, requests, greatest):
    """The first bucket with which each share is reached, and never more than the greatest value."""
    found, reached, ordered = {}, 0, iter(sorted(buckets.items()))
    for share in SHARES:
        wanted = max(-(-(share * requests) // 1), 1)
        while reached < wanted:
            top, count = next(ordered)
            reached += count
        found[percentile(share)] = min(top, greatest) / 1e9
    return found


def law(arrivals, completions, time, by_law, present, difference):
    """Little's law at one place."""
    return {"arrivals": arrivals, "completions": completions, "time": time, "by law": by_law, "present": present, "difference": difference}


def of_analysis(text):
    """From what `krarup analyze --json` printed."""
    found = json.loads(text)[0]
    station, operations, servers, laws, settled = found["stations"][0], {}, {}, {}, {}
    spread = lambda time: {"mean": time["mean"]["value"], **{percentile(share): one["value"] for share, one in zip(SHARES, time["percentiles"])}}
    for one in station["operations"]:
        operations[one["operation"]] = {"requests": one["count"], "errors": one["errors"], "throughput": one["throughput"]["value"]}
        operations[one["operation"]].update({quantity: spread(one[quantity]) for quantity in QUANTITIES})
    for one in station["servers"]:
        servers[str(one["server"])] = {"requests": one["requests"], "share": one["share"], "errors": one["errors"], "time": spread(one["time"])}
    for one in station["places"]:
        by_law, present = one["completions"] * one["time"], one["present"]
        laws[one["name"]] = law(one["arrivals"], one["completions"], one["time"], by_law, present, by_law / present - 1 if present > 0 else None)
    for series, word in zip(("throughput", "mean response time"), found["settled"]):
        after = word["after"] if isinstance(word, dict) else None
        enough = after is not None and after <= found["from"]
        settled[series] = {"settled": "after" if isinstance(word, dict) else word, "after": after, "cut off": found["from"], "enough": enough}
    windows = [[one["start"], one["length"], one["completed"], one["response"]] for one in found["windows"]]
    return {"operations": operations, "servers": servers, "laws": laws, "settled": settled, "windows": windows}


def differences(one, other, place=""):
    """Where two of these differ, and what each says there."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [*one, *(key for key in other if key not in one)]
        return [found for key in keys for found in differences(one.get(key, "nothing"), other.get(key, "nothing"), f"{place} {key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [found for key, pair in enumerate(zip(one, other)) for found in differences(*pair, f"{place} {key}")]
    return [] if one == other else [f"{place.strip()}: {one} and {other}"]


def show(told):
    """Prints it as JSON."""
    print(json.dumps(told, indent=1, sort_keys=True))
