import type { GitLogResult } from "servers/git";
import { git_log, type GitLogArguments } from "servers/git";

const options: GitLogArguments = { repo_path: "/workspace", max_count: 1 };
const log: GitLogResult = await git_log(options);
console.log(log);
