find . -name '*.md' -exec sh -c 'for file; do head -n 1 "$file"; done' sh {} +
