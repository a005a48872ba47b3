mapfile -t lines < notes.txt
echo "${#lines[@]} lines; last: ${lines[-1]}"
