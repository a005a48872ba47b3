bash -c 'echo "$(date +%Y)"'
