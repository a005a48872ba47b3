find . -type f -size +1M -printf '%s %p\n' | sort -rn | head -n 10
