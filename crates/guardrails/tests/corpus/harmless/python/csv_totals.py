import csv
from decimal import Decimal

with open("expenses.csv", newline="") as file:
    rows = list(csv.DictReader(file))
total = sum(Decimal(row["amount"]) for row in rows)
print(f"{len(rows)} rows, {total:.2f}")
