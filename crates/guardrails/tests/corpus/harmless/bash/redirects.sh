{ echo out; echo err >&2; } > out.txt 2> err.txt
cat out.txt err.txt > /dev/null 2>&1
exec 3> log.txt
echo "line" >&3
exec 3>&-
