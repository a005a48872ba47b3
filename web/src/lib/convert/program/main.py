# Converts the file.


def convert():
    try:
        file = io.BytesIO(base64.b64decode(data)) if data else open(path, 'rb')
    except FileNotFoundError:
        raise Problem('missing_file') from None
    with file:
        try:
            return READERS[kind](file)
        except expat.ExpatError as error:
            raise Problem('damaged', str(error)) from None
        except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, zipfile.zlib.error) as error:
            # Parts with a password raise a `RuntimeError`.
            raise Problem('encrypted' if 'encrypted' in str(error) else 'damaged', shortened(str(error), 300)) from None


try:
    result = {**convert(), 'is_cut': budget.is_cut}
except Problem as problem:
    result = {'kind': 'problem', 'code': problem.code, 'detail': problem.detail}
