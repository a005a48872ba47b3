from servers import calendar, mail

for event in calendar.list_events(day="2024-05-01"):
    mail.create_draft(subject=event["title"], body="See you there.")
