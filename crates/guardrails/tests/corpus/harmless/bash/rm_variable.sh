work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp notes.txt "$work/"
ls "$work"
