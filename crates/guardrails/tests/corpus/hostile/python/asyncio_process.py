# expect: call
import asyncio

async def main():
    process = await asyncio.create_subprocess_shell("id", stdout=-1)
    return await process.communicate()

print(asyncio.run(main()))
