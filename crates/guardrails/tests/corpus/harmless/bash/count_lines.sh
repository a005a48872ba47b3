wc -l *.csv | sort -n | tail -n 5
