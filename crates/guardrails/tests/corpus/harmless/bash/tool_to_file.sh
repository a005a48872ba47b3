tool crm list_customers --limit 100 > customers.json
jq -r '.[] | "\(.name),\(.city)"' customers.json | sort > /artifacts/customers.csv
