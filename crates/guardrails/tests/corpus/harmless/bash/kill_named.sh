pkill -f 'python3 server.py' || true
kill -0 $$ && echo alive
