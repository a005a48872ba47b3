from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

start = datetime(2024, 3, 30, 12, tzinfo=ZoneInfo("Europe/Berlin"))
print((start + timedelta(days=1)).isoformat(), start.astimezone(timezone.utc))
