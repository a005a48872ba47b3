python3 <<'END'
import csv
with open("sales.csv") as file:
    print(sum(float(row["amount"]) for row in csv.DictReader(file)))
END
