"""Two kinds of files: those of a server, through its tools, and those of the workspace, with plain functions."""

from servers.files import create_directory, edit_file, list_directory, move_file, read_text_file, write_file as put

create_directory(path="done")
edit_file(path="plan.txt", edits=[{"oldText": "Owner: nobody", "newText": "Owner: Ada"}])
move_file(source="plan.txt", destination="done/plan.txt")
put(path="done/notes.txt", content="Nothing is left to do.\n")
print(list_directory(path="done")["content"])

# The sandbox cannot see the server's files. Files to keep here must be written here.
write_file("copies/plan.txt", read_text_file(path="done/plan.txt")["content"])
print(*list_files("copies"))
print(read_file("copies/plan.txt").splitlines()[1])
delete_file("copies/plan.txt")
result = list_files("copies")
