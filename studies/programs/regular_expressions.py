"""Finds and replaces by regular expressions."""

import re

text = " ".join("user%d@host%d.example.org, %d.%02d EUR" % (i, i % 97, i, i % 100) for i in range(120000))
found = re.findall(r"(\w+)@(\w+)\.example\.org", text)
print(len(found), len(re.sub(r"(\d+)\.(\d\d)", r"\2,\1", text)))
