// Find a tool by what it does, then call it.

import { search_tools } from "coracle";
import { convert_time } from "servers/time";

for (const tool of await search_tools("convert a time to another time zone", { limit: 1 })) {
  console.log("found:", tool.name);
}

const answer = await convert_time({ source_timezone: "UTC", time: "12:30", target_timezone: "Asia/Tokyo" });
console.log("12:30 in UTC is", answer.target.datetime.slice(11, 16), "in Tokyo");

const result = answer.time_difference;
