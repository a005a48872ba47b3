import zipfile

with zipfile.ZipFile("upload.zip") as archive:
    for info in archive.infolist():
        print(info.filename, info.file_size)
