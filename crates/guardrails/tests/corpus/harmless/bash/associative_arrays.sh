declare -A counts
while read -r word; do
  (( counts[$word]++ ))
done < words.txt
for word in "${!counts[@]}"; do
  echo "$word ${counts[$word]}"
done | sort -k2 -rn
