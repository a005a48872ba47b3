# expect: dynamic-code
for name in $(cat names.txt); do
  sh -c "echo $name"
done
