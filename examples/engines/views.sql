-- What `krarup analyze` says of rows, as views over the views `parts` and `asked`, in SQL that DuckDB and Spark understand alike. These two are made of the
-- rows in each engine's own words (with_duckdb.py, with_spark.py): `parts` has a row for each request, with its four times in nanoseconds, `asked` one for each
-- request, or part of one, that a server was asked.

-- The whole run, and how long a window of it is: the longest of these of which the run has thirty, and at least a part in 20,000 of the run.
CREATE OR REPLACE TEMPORARY VIEW run AS
SELECT begun_ns, ended_ns, greatest(coalesce(usual_ns, CAST(ceil(run_ns / 30e0) AS BIGINT)), CAST(ceil(run_ns / 20000e0) AS BIGINT), 1) AS window_ns
FROM (SELECT begun_ns, ended_ns, ended_ns - begun_ns AS run_ns, max(CASE WHEN length_ns <= (ended_ns - begun_ns) / 30e0 THEN length_ns END) AS usual_ns
      FROM (SELECT min(received) AS begun_ns, max(replied) AS ended_ns FROM parts) AS whole
      CROSS JOIN (VALUES (1000000000), (500000000), (200000000), (100000000), (50000000), (20000000), (10000000), (5000000), (2000000), (1000000),
                         (500000), (200000)) AS lengths(length_ns)
      GROUP BY begun_ns, ended_ns) AS sized;

-- The measured span: from the first request to the last reply, that one not included. A warm-up is left out by a later first_ns.
CREATE OR REPLACE TEMPORARY VIEW span AS
SELECT begun_ns AS first_ns, ended_ns AS last_ns FROM run;

CREATE OR REPLACE TEMPORARY VIEW measured AS
SELECT parts.* FROM parts CROSS JOIN span WHERE replied >= first_ns AND replied < last_ns;

-- A row for each request and time, of its operation and of all together, and for each server's time.
CREATE OR REPLACE TEMPORARY VIEW times AS
SELECT named.operation AS name, kind.quantity,
       CASE kind.quantity WHEN 'response' THEN response_ns WHEN 'queue' THEN queue_ns WHEN 'server' THEN server_ns ELSE own_ns END AS ns
FROM (SELECT operation, response_ns, queue_ns, server_ns, own_ns FROM measured
      UNION ALL SELECT 'all', response_ns, queue_ns, server_ns, own_ns FROM measured) AS named
CROSS JOIN (VALUES ('response'), ('queue'), ('server'), ('own')) AS kind(quantity)
UNION ALL SELECT concat('server ', server), 'one server', greatest(answered - sent, 0) FROM asked CROSS JOIN span
WHERE answered >= first_ns AND answered < last_ns;

-- Throughput X and errors of each operation.
CREATE OR REPLACE TEMPORARY VIEW operations AS
SELECT named.operation, count(*) AS requests, sum(CASE WHEN outcome <> 'ok' THEN 1 ELSE 0 END) AS errors,
       CAST(count(*) AS DOUBLE) / (CAST(max(last_ns) - min(first_ns) AS DOUBLE) / 1e9) AS throughput_per_s
FROM (SELECT operation, outcome FROM measured UNION ALL SELECT 'all', outcome FROM measured) AS named CROSS JOIN span
GROUP BY named.operation;

-- Where the time went: means.
CREATE OR REPLACE TEMPORARY VIEW means AS
SELECT name, quantity, CAST(sum(ns) AS DOUBLE) / 1e9 / CAST(count(*) AS DOUBLE) AS mean_s FROM times GROUP BY name, quantity;

CREATE OR REPLACE TEMPORARY VIEW breakdown AS
SELECT name AS operation, quantity, mean_s FROM means WHERE quantity <> 'one server';

-- The histogram of HdrHistogram with three digits: a value below 2048 ns has its own bucket, above each is 1/1024 to 1/2048 of its values wide. `ns` is the
-- greatest value of the bucket. Buckets of parts of the rows add up, so this is all that machines have to exchange.
CREATE OR REPLACE TEMPORARY VIEW histograms AS
SELECT name, quantity, count(*) AS requests, max(greatest_ns) AS greatest_ns,
       CASE WHEN value < 2048 THEN value ELSE value - value % width + width - 1 END AS ns
FROM (SELECT name, quantity, ns AS greatest_ns, least(ns, 100000000000) AS value,
             CAST(power(2, floor(log2(greatest(least(ns, 100000000000), 2048))) - 10) AS BIGINT) AS width FROM times) AS sized
GROUP BY name, quantity, CASE WHEN value < 2048 THEN value ELSE value - value % width + width - 1 END;

CREATE OR REPLACE TEMPORARY VIEW buckets AS
SELECT name AS operation, quantity, requests, greatest_ns, ns FROM histograms WHERE quantity <> 'one server';

-- Percentiles: the first bucket with which the share is reached, and never more than the greatest value.
CREATE OR REPLACE TEMPORARY VIEW quantiles AS
SELECT name, quantity, share, CAST(least(min(ns), max(greatest_ns)) AS DOUBLE) / 1e9 AS time_s
FROM (SELECT name, quantity, ns, share,
             max(greatest_ns) OVER (PARTITION BY name, quantity, share) AS greatest_ns,
             sum(requests) OVER (PARTITION BY name, quantity, share ORDER BY ns) AS reached,
             sum(requests) OVER (PARTITION BY name, quantity, share) AS requests
      FROM histograms CROSS JOIN (VALUES (0.25e0), (0.5e0), (0.75e0), (0.9e0), (0.95e0), (0.99e0), (0.999e0)) AS shares(share)) AS ranked
WHERE reached >= greatest(ceil(share * requests), 1)
GROUP BY name, quantity, share;

CREATE OR REPLACE TEMPORARY VIEW percentiles AS
SELECT name AS operation, quantity, share, time_s FROM quantiles WHERE quantity <> 'one server';

-- Each server: of each request, or part of one, that it answered in the measured span.
CREATE OR REPLACE TEMPORARY VIEW servers AS
SELECT counted.server, requests, CAST(requests AS DOUBLE) / CAST(greatest(sum(requests) OVER (), 1) AS DOUBLE) AS share, errors,
       mean_s, p25_s, p50_s, p75_s, p90_s, p95_s, p99_s, p999_s
FROM (SELECT server, concat('server ', server) AS name, count(*) FILTER (WHERE answered >= first_ns AND answered < last_ns) AS requests,
             count(*) FILTER (WHERE answered >= first_ns AND answered < last_ns AND outcome <> 'ok') AS errors
      FROM asked CROSS JOIN span GROUP BY server) AS counted
LEFT JOIN (SELECT name, mean_s FROM means WHERE quantity = 'one server') AS averaged ON averaged.name = counted.name
LEFT JOIN (SELECT name, max(CASE WHEN share = 0.25e0 THEN time_s END) AS p25_s, max(CASE WHEN share = 0.5e0 THEN time_s END) AS p50_s,
                  max(CASE WHEN share = 0.75e0 THEN time_s END) AS p75_s, max(CASE WHEN share = 0.9e0 THEN time_s END) AS p90_s,
                  max(CASE WHEN share = 0.95e0 THEN time_s END) AS p95_s, max(CASE WHEN share = 0.99e0 THEN time_s END) AS p99_s,
                  max(CASE WHEN share = 0.999e0 THEN time_s END) AS p999_s
           FROM quantiles WHERE quantity = 'one server' GROUP BY name) AS ranked ON ranked.name = counted.name;

-- From when to when each request is at the station, in the queue, with a worker, and at each server. Of rows that a load generator wrote, `station` is what
-- `krarup analyze` calls clients, `queue` is due and not sent, `workers` is sent.
CREATE OR REPLACE TEMPORARY VIEW stays AS
SELECT 'station' AS place, received AS came, replied AS went FROM parts
UNION ALL SELECT 'queue', queued, taken FROM parts WHERE taken > queued OR busy_workers > 0
UNION ALL SELECT 'workers', taken, replied FROM parts WHERE busy_workers > 0
UNION ALL SELECT concat('server ', server), sent, answered FROM asked;

-- Little's law at each of these places, L = X W, with sides that are counted apart: X (completions) and W (time_s) of those that left in the measured span, L
-- (present) of how long all were there in it, whenever they came and left. `by_law` is X W.
CREATE OR REPLACE TEMPORARY VIEW laws AS
SELECT place, arrivals_per_s, completions_per_s, time_s, completions_per_s * time_s AS by_law, present,
       CASE WHEN present > 0 THEN completions_per_s * time_s / present - 1 END AS difference
FROM (SELECT place, CAST(arrived AS DOUBLE) / length_s AS arrivals_per_s, CAST(completed AS DOUBLE) / length_s AS completions_per_s,
             CAST(times_ns AS DOUBLE) / 1e9 / CAST(completed AS DOUBLE) AS time_s, CAST(overlaps_ns AS DOUBLE) / 1e9 / length_s AS present
      FROM (SELECT place, CAST(max(last_ns) - min(first_ns) AS DOUBLE) / 1e9 AS length_s,
                   count(*) FILTER (WHERE came >= first_ns AND came < last_ns) AS arrived,
                   count(*) FILTER (WHERE went >= first_ns AND went < last_ns) AS completed,
                   sum(greatest(went - came, 0)) FILTER (WHERE went >= first_ns AND went < last_ns) AS times_ns,
                   sum(greatest(least(went, last_ns) - greatest(came, first_ns), 0)) AS overlaps_ns
            FROM stays CROSS JOIN span GROUP BY place) AS counted
      WHERE completed > 0) AS averaged;

-- The whole run, window by window, those without a reply too.
CREATE OR REPLACE TEMPORARY VIEW windows AS
SELECT number, start_s, least(width_s, run_s - start_s) AS length_s, coalesce(completed, 0) AS completed,
       CAST(response_ns AS DOUBLE) / 1e9 / CAST(completed AS DOUBLE) AS response_s
FROM (SELECT number, number * width_s AS start_s, width_s, run_s
      FROM (SELECT CAST(window_ns AS DOUBLE) / 1e9 AS width_s, CAST(ended_ns - begun_ns AS DOUBLE) / 1e9 AS run_s FROM run) AS sized
      CROSS JOIN range(0, 20001) AS numbers(number)) AS starts
LEFT JOIN (SELECT CAST(round((since_ns - since_ns % window_ns) / CAST(window_ns AS DOUBLE)) AS BIGINT) AS place, count(*) AS completed,
                  sum(response_ns) AS response_ns
           FROM (SELECT replied - begun_ns AS since_ns, window_ns, response_ns FROM parts CROSS JOIN run WHERE replied >= begun_ns) AS ended
           GROUP BY 1) AS placed ON placed.place = number
WHERE start_s < run_s;

-- When the run settled, by the marginal standard error rule (MSER) over these windows; the first and the last are cut short and not looked at. Leaving out the
-- first values of a series lowers both the spread of those that are kept and their number. The statistic of a cut is the sum of squared deviations from the mean
-- of the kept, divided by their number squared. It is summed of distances from the last value, which is always kept: so rounding stays far below 1e-9.
CREATE OR REPLACE TEMPORARY VIEW cuts AS
SELECT series, cut, length, greatest(squares - distances * distances / (length - cut), 0e0) / ((length - cut) * (length - cut)) AS statistic
FROM (SELECT series, cut, length, lowest, highest, sum(value - final) OVER (PARTITION BY series ORDER BY cut DESC) AS distances,
             sum((value - final) * (value - final)) OVER (PARTITION BY series ORDER BY cut DESC) AS squares
      FROM (SELECT series, value, row_number() OVER (PARTITION BY series ORDER BY number) - 1 AS cut, count(*) OVER (PARTITION BY series) AS length,
                   first_value(value) OVER (PARTITION BY series ORDER BY number DESC) AS final,
                   min(value) OVER (PARTITION BY series) AS lowest, max(value) OVER (PARTITION BY series) AS highest
            FROM (SELECT 'throughput' AS series, number, completed / length_s AS value FROM windows
                  UNION ALL SELECT 'mean response time', number, response_s FROM windows WHERE completed > 0) AS all_values
            WHERE number > 0 AND number < (SELECT max(number) FROM windows)) AS placed) AS summed
WHERE length >= 10 AND lowest < highest AND 2 * cut <= length;

-- The cut whose statistic is least, of equal ones (to a share of 1e-9) the earliest. Only the first half is searched: where the least is at its end, the run had
-- not settled. `enough`: at least so much is left out before the measured span.
CREATE OR REPLACE TEMPORARY VIEW settled AS
SELECT series, settled, after_s, cut_off_s, coalesce(after_s <= cut_off_s, false) AS enough
FROM (SELECT named.series, CASE WHEN cut IS NULL THEN 'unknown' WHEN 2 * cut >= length - 1 THEN 'never' ELSE 'after' END AS settled,
             CASE WHEN cut = 0 THEN 0e0 WHEN 2 * cut < length - 1 THEN (cut + 1) * width_s END AS after_s, cut_off_s
      FROM (VALUES ('throughput'), ('mean response time')) AS named(series)
      CROSS JOIN (SELECT CAST(window_ns AS DOUBLE) / 1e9 AS width_s, CAST(first_ns - begun_ns AS DOUBLE) / 1e9 AS cut_off_s FROM run CROSS JOIN span) AS sized
      LEFT JOIN (SELECT series, max(length) AS length, min(cut) AS cut
                 FROM (SELECT series, cut, length, statistic, min(statistic) OVER (PARTITION BY series) AS least FROM cuts) AS compared
                 WHERE statistic <= least * 1.000000001e0 GROUP BY series) AS best ON best.series = named.series) AS found;
