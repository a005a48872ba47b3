# expect: system-file
for pid in 1 2 3; do
  strings "/proc/$pid/environ"
done
