comm -13 <(sort old.txt) <(sort new.txt)
diff -u <(jq -S . a.json) <(jq -S . b.json) || true
