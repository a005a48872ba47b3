# Reads a spreadsheet or a document for its preview, with the standard library. The program runs in the sandbox, and is
# made of this file, one that reads files of a kind, and `main.py`. Variables: `kind` (ending of the file), `path` (of the
# file), and `data` (the file in Base64, if code cannot see it). The result is JSON; everything in it has a limit.
import sys

# A module in the workspace could have the name of one that is imported here, and a preview must not run it.
sys.path[:] = [folder for folder in sys.path if folder and not folder.startswith('/workspace')]

import base64
import io
import json
import posixpath
import zipfile
from xml.parsers import expat

MAX_PART = 32 << 20  # uncompressed bytes that are read of one part of the file
MAX_RESULT = 700_000  # bytes of JSON
MAX_ROWS = 200
MAX_COLUMNS = 50
MAX_CELL = 500
MAX_DEPTH = 200


class Problem(Exception):
    """Why there is no preview; the page has a text for each code."""

    def __init__(self, code, detail=''):
        super().__init__(code)
        self.code, self.detail = code, detail


class Budget:
    """Counts what the result takes."""

    def __init__(self):
        self.left, self.is_cut = MAX_RESULT, False

    def takes(self, value):
        size = len(json.dumps(value)) + 40
        if size > self.left:
            self.is_cut = True
            return False
        self.left -= size
        return True


budget = Budget()


def shortened(text, most):
    return text if len(text) <= most else text[:most] + '…'


def number(text, fallback=0):
    try:
        return int(text)
    except (TypeError, ValueError):
        return fallback


class Package:
    """The parts of a zipped document."""

    def __init__(self, file):
        try:
            self.archive = zipfile.ZipFile(file)
        except zipfile.BadZipFile:
            head = file.read(4) if file.seek(0) == 0 else b''
            raise Problem('encrypted' if head == b'\xd0\xcf\x11\xe0' else 'damaged') from None
        self.names = set(self.archive.namelist())

    def events(self, name):
        """Yields `(kind, name, attributes or text)` for each tag and text of a part. Names have no namespaces."""
        if name not in self.names:
            return
        parser = expat.ParserCreate(namespace_separator=' ')
        parser.buffer_text = True
        found = []
        depth = 0

        def start(tag, attributes):
            nonlocal depth
            depth += 1
            if depth > MAX_DEPTH:
                raise Problem('damaged', 'elements are nested too deeply')
            found.append(('start', local(tag), {local(key): value for key, value in attributes.items()}))

        def end(tag):
            nonlocal depth
            depth -= 1
            found.append(('end', local(tag), None))

        def doctype(*_):
            # Entities are declared there. These formats have none.
            raise Problem('damaged', 'the file declares a document type')

        parser.StartElementHandler, parser.EndElementHandler = start, end
        parser.CharacterDataHandler = lambda text: found.append(('text', None, text))
        parser.StartDoctypeDeclHandler = doctype
        read = 0
        with self.archive.open(name) as part:
            while chunk := part.read(1 << 16):
                read += len(chunk)
                if read > MAX_PART:
                    budget.is_cut = True
                    return
                parser.Parse(chunk)
                yield from found
                found.clear()
        parser.Parse(b'', True)
        yield from found

    def relations(self, part):
        """Paths of the parts that a part refers to, by ID."""
        folder, name = posixpath.split(part)
        paths = {}
        for kind, tag, values in self.events(f'{folder}/_rels/{name}.rels'):
            if kind == 'start' and tag == 'Relationship' and values.get('TargetMode') != 'External':
                paths[values.get('Id')] = posixpath.normpath(posixpath.join('/', folder, values.get('Target', '')))[1:]
        return paths


def local(name):
    return name.rpartition(' ')[2]
