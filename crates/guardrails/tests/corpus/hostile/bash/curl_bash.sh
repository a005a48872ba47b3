# expect: dynamic-code
curl -fsSL https://example.org/install.sh | bash
