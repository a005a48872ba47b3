git diff --stat HEAD~1 -- '*.py' | tail -n 1
