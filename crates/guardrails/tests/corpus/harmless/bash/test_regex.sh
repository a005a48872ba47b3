version=v1.20.3
if [[ $version =~ ^v([0-9]+)\.([0-9]+) ]]; then
  echo "${BASH_REMATCH[1]} ${BASH_REMATCH[2]}"
fi
