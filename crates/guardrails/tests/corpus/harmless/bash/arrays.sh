files=(a.txt b.txt "c d.txt")
for file in "${files[@]}"; do
  echo "${file%.txt} ${#file}"
done
echo "${#files[@]} files, first ${files[0]}"
