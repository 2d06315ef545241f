-- What `krarup analyze` says of rows, as views over the view `parts`, in SQL that DuckDB and Spark understand alike. `parts` is made of the rows in each
-- engine's own words (with_duckdb.py, with_spark.py): a row for each request, with its four times in nanoseconds.

-- The measured span: from the first request to the last reply, that one not included. A warm-up is left out by a later first_ns.
CREATE OR REPLACE TEMPORARY VIEW span AS
SELECT min(received) AS first_ns, max(replied) AS last_ns FROM parts;

CREATE OR REPLACE TEMPORARY VIEW measured AS
SELECT parts.* FROM parts CROSS JOIN span WHERE replied >= first_ns AND replied < last_ns;

-- A row for each request and time, of its operation and of all together.
CREATE OR REPLACE TEMPORARY VIEW times AS
SELECT named.operation, kind.quantity,
       CASE kind.quantity WHEN 'response' THEN response_ns WHEN 'queue' THEN queue_ns WHEN 'server' THEN server_ns ELSE own_ns END AS ns
FROM (SELECT operation, response_ns, queue_ns, server_ns, own_ns FROM measured
      UNION ALL SELECT 'all', response_ns, queue_ns, server_ns, own_ns FROM measured) AS named
CROSS JOIN (VALUES ('response'), ('queue'), ('server'), ('own')) AS kind(quantity);

-- Throughput X and errors of each operation.
CREATE OR REPLACE TEMPORARY VIEW operations AS
SELECT named.operation, count(*) AS requests, sum(CASE WHEN outcome <> 'ok' THEN 1 ELSE 0 END) AS errors,
       CAST(count(*) AS DOUBLE) / (CAST(max(last_ns) - min(first_ns) AS DOUBLE) / 1e9) AS throughput_per_s
FROM (SELECT operation, outcome FROM measured UNION ALL SELECT 'all', outcome FROM measured) AS named CROSS JOIN span
GROUP BY named.operation;

-- Where the time went: means.
CREATE OR REPLACE TEMPORARY VIEW breakdown AS
SELECT operation, quantity, CAST(sum(ns) AS DOUBLE) / 1e9 / CAST(count(*) AS DOUBLE) AS mean_s FROM times GROUP BY operation, quantity;

-- The histogram of HdrHistogram with three digits: a value below 2048 ns has its own bucket, above each is 1/1024 to 1/2048 of its values wide. `ns` is the
-- greatest value of the bucket. Buckets of parts of the rows add up, so this is all that machines have to exchange.
CREATE OR REPLACE TEMPORARY VIEW buckets AS
SELECT operation, quantity, count(*) AS requests, max(greatest_ns) AS greatest_ns,
       CASE WHEN value < 2048 THEN value ELSE value - value % width + width - 1 END AS ns
FROM (SELECT operation, quantity, ns AS greatest_ns, least(ns, 100000000000) AS value,
             CAST(power(2, floor(log2(greatest(least(ns, 100000000000), 2048))) - 10) AS BIGINT) AS width FROM times) AS sized
GROUP BY operation, quantity, CASE WHEN value < 2048 THEN value ELSE value - value % width + width - 1 END;

-- Percentiles: the first bucket with which the share is reached, and never more than the greatest value.
CREATE OR REPLACE TEMPORARY VIEW percentiles AS
SELECT operation, quantity, share, CAST(least(min(ns), max(greatest_ns)) AS DOUBLE) / 1e9 AS time_s
FROM (SELECT operation, quantity, ns, share,
             max(greatest_ns) OVER (PARTITION BY operation, quantity, share) AS greatest_ns,
             sum(requests) OVER (PARTITION BY operation, quantity, share ORDER BY ns) AS reached,
             sum(requests) OVER (PARTITION BY operation, quantity, share) AS requests
      FROM buckets CROSS JOIN (VALUES (CAST(0.25 AS DOUBLE)), (CAST(0.5 AS DOUBLE)), (CAST(0.75 AS DOUBLE)), (CAST(0.9 AS DOUBLE)), (CAST(0.95 AS DOUBLE)),
                                      (CAST(0.99 AS DOUBLE)), (CAST(0.999 AS DOUBLE))) AS shares(share)) AS ranked
WHERE reached >= greatest(ceil(share * requests), 1)
GROUP BY operation, quantity, share;
