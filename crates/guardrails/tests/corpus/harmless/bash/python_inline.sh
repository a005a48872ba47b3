python3 -c 'import json, sys; print(len(json.load(sys.stdin)))' < data.json
