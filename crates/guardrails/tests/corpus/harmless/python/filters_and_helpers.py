issues = [{"state": "open", "days": 3}, {"state": "closed", "days": 9}]
print(filter_by_field(issues, "state", "open"))
print(aggregate_stats([one["days"] for one in issues]))
checkpoint("filtered", {"count": len(issues)})
