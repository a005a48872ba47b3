awk -F, 'NR > 1 { total[$2] += $3 } END { for (k in total) printf "%s %.2f\n", k, total[k] }' sales.csv
