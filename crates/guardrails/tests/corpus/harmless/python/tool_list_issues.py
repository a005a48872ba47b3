from servers.github import list_issues

open_issues = list_issues(owner="acme", repo="site", state="open")
for issue in open_issues:
    print(f"#{issue['number']}: {issue['title']}")
result = len(open_issues)
