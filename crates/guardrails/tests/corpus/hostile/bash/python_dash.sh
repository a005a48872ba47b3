# expect: dynamic-code
jq -r .code job.json | python3 -
