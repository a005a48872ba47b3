from servers.time import get_current_time

now = await get_current_time.aio(timezone="UTC")
print(now["datetime"])
