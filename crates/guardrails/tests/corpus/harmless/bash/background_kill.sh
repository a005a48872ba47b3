sleep 60 &
pid=$!
kill "$pid"
wait "$pid" 2> /dev/null || echo stopped
