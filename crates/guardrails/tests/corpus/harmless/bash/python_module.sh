jq -c . data.json | python3 -m json.tool
