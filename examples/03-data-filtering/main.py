"""Five hundred rows come in, four lines go out: data that a model does not need stays in the sandbox."""

import csv
import io
from collections import defaultdict

from servers.files import read_text_file

rows = list(csv.DictReader(io.StringIO(read_text_file(path="orders.csv")["content"])))
late = [row for row in rows if row["status"] == "late" and float(row["amount"]) > 200]

cents = defaultdict(int)
for row in late:
    cents[row["region"]] += round(float(row["amount"]) * 100)

print(f"{len(rows)} orders, of which {len(late)} are late and above 200")
for region in sorted(cents):
    print(f"{region}: {cents[region] / 100:.2f}")
result = max(sorted(cents), key=cents.get)
