# expect: destructive
bomb() {
  bomb | bomb &
}
bomb
