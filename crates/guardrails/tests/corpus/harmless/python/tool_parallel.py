import asyncio

from servers.weather import get_weather

cities = ["Berlin", "Paris", "Oslo"]

async def main():
    return await asyncio.gather(*(get_weather.aio(city=city) for city in cities))

for city, weather in zip(cities, asyncio.run(main())):
    print(city, weather["temperature"])
