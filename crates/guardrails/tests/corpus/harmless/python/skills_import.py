from skills.report import build_report

print(build_report(month="2024-04"))
