python3 scripts/clean.py --input raw.csv --output clean.csv
