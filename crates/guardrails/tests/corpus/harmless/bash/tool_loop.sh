for repo in site api docs; do
  count=$(tool github list_issues --owner acme --repo "$repo" | jq length)
  echo "$repo: $count"
done
