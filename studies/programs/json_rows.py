"""Writes a list of objects as JSON and reads it again."""

import json

rows = [{"id": i, "name": "row %d" % i, "tags": ["a", "b", str(i)], "x": i / 7} for i in range(60000)]
for _ in range(4):
    text = json.dumps(rows)
    rows = json.loads(text)
print(len(text))
