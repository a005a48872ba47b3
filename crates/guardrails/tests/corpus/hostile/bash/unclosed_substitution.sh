# expect: syntax
files=$(ls | head -n 3
echo $files
