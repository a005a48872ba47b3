import { get_weather } from "servers/weather";

const cities = ["Berlin", "Paris", "Oslo"];
const reports = await Promise.all(cities.map((city) => get_weather({ city })));
reports.forEach((report, index) => console.log(cities[index], report.temperature));
