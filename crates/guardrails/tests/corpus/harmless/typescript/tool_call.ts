import { list_issues } from "servers/github";

const issues = await list_issues({ owner: "acme", repo: "site", state: "open" });
console.log(issues.length, issues.map((issue) => issue.title));
