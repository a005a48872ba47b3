tool mail search --query "from:ann" | jq -r '.[].subject' | while IFS= read -r subject; do
  printf '%s\n' "- $subject"
done
