count=0
until (( count >= 3 )); do
  (( ++count ))
done
echo "$count"
