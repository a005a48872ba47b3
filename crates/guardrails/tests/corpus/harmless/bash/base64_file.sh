base64 -d logo.b64 > /artifacts/logo.png
echo "hello" | base64
