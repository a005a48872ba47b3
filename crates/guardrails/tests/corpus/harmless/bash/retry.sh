retry() {
  local tries=$1
  shift
  for ((i = 1; i <= tries; i++)); do
    "$@" && return 0
    echo "attempt $i failed" >&2
    sleep 1
  done
  return 1
}
retry 3 test -f notes.txt
