tool github list_issues --owner acme --repo site | python3 -c '
import json, sys
for issue in json.load(sys.stdin):
    print(issue["number"], issue["title"])
'
