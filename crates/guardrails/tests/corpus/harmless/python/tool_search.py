from coracle import search_tools

for tool in search_tools("send an e-mail", limit=3)["tools"]:
    print(tool["name"], "-", tool["summary"])
