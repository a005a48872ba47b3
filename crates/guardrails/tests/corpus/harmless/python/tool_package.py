import servers.files

print(servers.files.list_directory(path="/data"))
