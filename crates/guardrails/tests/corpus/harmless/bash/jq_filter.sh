jq -r '.items[] | select(.state == "open") | [.id, .title] | @tsv' issues.json
