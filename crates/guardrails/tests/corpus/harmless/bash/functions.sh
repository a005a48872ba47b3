greet() {
  local name=${1:-world}
  echo "Hello, $name"
}
greet
greet Ann
