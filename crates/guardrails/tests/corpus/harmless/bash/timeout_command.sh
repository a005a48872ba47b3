timeout 5 grep -r boat . | head -n 1 || echo "too slow"
