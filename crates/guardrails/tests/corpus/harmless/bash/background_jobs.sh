for number in 1 2 3; do
  ( sleep 0.1; echo "$number" ) &
done
wait
echo done
