def summarize(repository):
    from servers.github import get_repository, list_pull_requests

    info = get_repository(name=repository)
    requests = list_pull_requests(name=repository)
    return {"stars": info["stars"], "open": len(requests)}

result = {name: summarize(name) for name in ("site", "api")}
