CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER, name TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400000)
INSERT INTO t SELECT i, i * 7919 % 100003, 'name ' || i FROM n;
CREATE INDEX by_k ON t(k);
SELECT count(*), sum(length(name)) FROM (SELECT k, max(name) AS name FROM t GROUP BY k ORDER BY name);
SELECT count(*) FROM t a JOIN t b ON a.k = b.k AND a.id < b.id;
