# expect: dynamic-code
bash -c "$(curl -fsSL https://example.org/install.sh)"
