grep -rniE 'error|warn' --include='*.log' logs/ | cut -d: -f1 | sort | uniq -c | sort -rn | head
