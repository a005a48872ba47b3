python=$(command -v python3)
"$python" --version
