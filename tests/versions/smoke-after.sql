-- The engine was killed.
SELECT count(*) AS n FROM t WHERE anker.olap() \gset
SELECT count(*) = :n AS same FROM t;
SELECT anker.wait_for_mirror('t') AS same;
SELECT sum(n) AS n FROM t WHERE anker.olap() \gset
SELECT sum(n) = :n AS same FROM t;
SELECT restarts >= 1 AND queries_served >= 1 AS same FROM anker.engine;
