while IFS=, read -r name city _; do
  [[ $city == Berlin ]] && echo "$name"
done < people.csv
