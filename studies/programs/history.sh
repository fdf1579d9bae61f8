# Imports 2000 commits into a new repository, packs it, and shows its history.
set -e
export HOME="$PWD" GIT_CONFIG_NOSYSTEM=1
directory=$(mktemp -d "$PWD/history.XXXXXX")
trap 'rm -rf "$directory"' EXIT
git init -q --bare "$directory"
i=0
while [ $i -lt 2000 ]; do
    i=$((i + 1))
    printf 'commit refs/heads/main\ncommitter A <a@example.org> %d +0000\ndata 10\nchange %03d\n' \
        $((1700000000 + i)) $((i % 1000))
    printf 'M 100644 inline file%d\ndata <<END\nline %d\nof file %d\nEND\n\n' $((i % 300)) $i $((i * i))
done | git -C "$directory" fast-import --quiet
git -C "$directory" gc --quiet
git -C "$directory" log --stat main | cksum
