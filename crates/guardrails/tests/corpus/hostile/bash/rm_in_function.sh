# expect: destructive
cleanup() {
  local folder="/"
  rm -rf "$folder"
}
cleanup
