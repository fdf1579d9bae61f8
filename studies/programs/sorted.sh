# Sorts and counts lines.
seq 1 400000 | awk '{print $1 * 7919 % 400009, "line", $1}' | sort -S 64M | uniq -c | tail -1
