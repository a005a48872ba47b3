zcat access.log.gz | awk '$9 >= 500 { print $7 }' | sort | uniq -c | sort -rn | head -n 5
