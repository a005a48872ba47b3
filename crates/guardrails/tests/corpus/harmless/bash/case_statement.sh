case "$1" in
  -h|--help) echo "usage: $0 FILE" ;;
  *.csv) head -n 1 "$1" ;;
  "") echo "no file" >&2; exit 2 ;;
  *) file "$1" ;;
esac
