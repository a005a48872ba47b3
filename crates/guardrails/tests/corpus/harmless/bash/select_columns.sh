paste -d, <(cut -d, -f1 a.csv) <(cut -d, -f3 a.csv) | column -t -s,
