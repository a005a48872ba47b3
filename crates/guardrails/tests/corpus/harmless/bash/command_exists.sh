for program in jq awk python3; do
  if command -v "$program" > /dev/null; then
    echo "$program: $(command -v "$program")"
  fi
done
