// Two kinds of files: those of a server, through its tools, and those of the workspace, with plain functions.

import { create_directory, edit_file, list_directory, move_file, read_text_file, write_file as put } from "servers/files";

await create_directory({ path: "done" });
await edit_file({ path: "plan.txt", edits: [{ oldText: "Owner: nobody", newText: "Owner: Ada" }] });
await move_file({ source: "plan.txt", destination: "done/plan.txt" });
await put({ path: "done/notes.txt", content: "Nothing is left to do.\n" });
console.log((await list_directory({ path: "done" })).content);

// The sandbox cannot see the server's files. Files to keep here must be written here.
writeFile("copies/plan.txt", (await read_text_file({ path: "done/plan.txt" })).content);
console.log(...listFiles("copies"));
console.log(readFile("copies/plan.txt").split("\n")[1]);
deleteFile("copies/plan.txt");
const result = listFiles("copies");
