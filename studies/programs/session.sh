# Runs statements in a single-user session of a new PostgreSQL cluster. PostgreSQL refuses root.
set -e
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
as=
if [ "$(id -u)" = 0 ]; then
    chown 65534:65534 "$directory"
    as='setpriv --reuid=65534 --regid=65534 --clear-groups'
fi
cd "$directory"
$as initdb -D data --no-sync >/dev/null 2>&1
$as postgres --single -j -D data postgres <<'SQL' 2>/dev/null | grep -c =
CREATE UNLOGGED TABLE t AS SELECT i, i * 7919::bigint % 100003 AS k, 'name ' || i AS name FROM generate_series(1, 500000) i;

SELECT count(*), sum(length(m)) FROM (SELECT k, max(name) AS m FROM t GROUP BY k) g;

SELECT count(*) FROM t a JOIN t b ON a.k = b.k AND a.i < b.i;

SELECT count(*) FROM (SELECT name, rank() OVER (PARTITION BY k ORDER BY i DESC) FROM t) w;

SQL
