# Starts a Redis server, and asks it by its own benchmark: this many times for each command.
set -e
directory=$(mktemp -d "$PWD/redis.XXXXXX")
trap 'rm -rf "$directory"' EXIT
redis-server --port 0 --unixsocket "$directory/socket" --dir "$directory" --save '' --appendonly no >/dev/null &
until redis-cli -s "$directory/socket" ping >/dev/null 2>&1; do sleep 0.02; done
redis-benchmark -s "$directory/socket" -q -n "${1:-60000}" -r 100000 -d 200 -t set,lpush,hset >/dev/null
redis-cli -s "$directory/socket" shutdown nosave
wait
