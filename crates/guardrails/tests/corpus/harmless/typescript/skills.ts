import { build_report } from "skills/report";

console.log(build_report({ month: "2024-04" }));
