read -r first second _ <<< "one two three"
echo "$second $first"
