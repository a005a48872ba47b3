total=0
for number in {1..10}; do
  (( total += number * number ))
done
echo "$total $(( total / 3 )) $(( 2 ** 10 ))"
