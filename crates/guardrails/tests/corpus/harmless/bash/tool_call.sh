tool github list_issues --owner acme --repo site --state open | jq 'length'
