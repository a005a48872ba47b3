import asyncio

async def worker(queue, results):
    while True:
        number = await queue.get()
        await asyncio.sleep(0)
        results.append(number * number)
        queue.task_done()

async def main():
    queue, results = asyncio.Queue(), []
    workers = [asyncio.create_task(worker(queue, results)) for _ in range(3)]
    for number in range(10):
        queue.put_nowait(number)
    await queue.join()
    for one in workers:
        one.cancel()
    return sorted(results)

print(asyncio.run(main()))
