import servers.git as git

log = git.git_log(repo_path="/workspace/site", max_count=5)
print(log)
