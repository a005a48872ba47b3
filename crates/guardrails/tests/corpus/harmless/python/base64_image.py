import base64

data = base64.b64decode(read_file("logo.b64"))
with open("/artifacts/logo.png", "wb") as file:
    file.write(data)
