"""Builds an XML tree, writes it and parses it again."""

import xml.etree.ElementTree as xml

root = xml.Element("table")
for i in range(40000):
    row = xml.SubElement(root, "row", id=str(i))
    xml.SubElement(row, "name").text = "row %d" % i
    xml.SubElement(row, "value").text = "x" * (i % 50)
text = xml.tostring(root)
for _ in range(3):
    root = xml.fromstring(text)
print(len(text), sum(len(row) for row in root))
