find . -name '*.txt' -print0 | xargs -0 grep -l 'TODO'
