shuf -i 1-100 -n 5
echo $(( RANDOM % 6 + 1 )) $$
