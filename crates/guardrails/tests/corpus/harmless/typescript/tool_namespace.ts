import * as git from "servers/git";

const log = await git.git_log({ repo_path: "/workspace/site", max_count: 5 });
console.log(log);
