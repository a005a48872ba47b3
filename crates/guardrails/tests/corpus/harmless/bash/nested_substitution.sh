newest=$(ls -t "$(dirname "$(realpath notes.txt)")" | head -n 1)
echo "newest: $newest"
