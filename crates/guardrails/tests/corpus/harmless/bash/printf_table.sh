printf '%-10s %5d\n' Ann 3 Bo 12
printf -v line '%03d' 7
echo "$line"
