if [[ -f notes.txt && ! -d build ]]; then
  echo yes
elif [ "$#" -gt 2 ] || [ -z "${NAME:-}" ]; then
  echo no
fi
