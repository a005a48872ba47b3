# Runs in the sandbox and reads a spreadsheet or a document for its preview, with the standard library. Variables:
# `kind` (ending of the file), `path` (of the file), and `data` (the file in Base64, if code cannot see it). The result
# is JSON; everything in it has a limit.
import sys

# A module in the workspace could have the name of one that is imported here, and a preview must not run it.
sys.path[:] = [folder for folder in sys.path if folder and not folder.startswith('/workspace')]

import base64
import datetime
import io
import json
import posixpath
import re
import zipfile
from xml.parsers import expat

MAX_PART = 32 << 20  # uncompressed bytes that are read of one part of the file
MAX_RESULT = 700_000  # bytes of JSON
MAX_SHEETS = 20
MAX_ROWS = 200
MAX_COLUMNS = 50
MAX_CELL = 500
MAX_TEXT = 20_000  # characters in one paragraph
MAX_BLOCKS = 3_000
MAX_STRINGS = 1_000_000
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


class Sheet:
    """The first rows of a table. Rows without content are left out."""

    def __init__(self, name):
        self.name, self.rows, self.all_rows, self.all_columns = shortened(name, 100), [], 0, 0

    def add(self, row, cells):
        width = max((column + 1 for column, text in cells.items() if text), default=0)
        if width == 0:
            return
        self.all_rows += 1
        self.all_columns = max(self.all_columns, width)
        if len(self.rows) < MAX_ROWS:
            shown = [shortened(cells.get(column, ''), MAX_CELL) for column in range(min(width, MAX_COLUMNS))]
            if budget.takes(shown):
                self.rows.append({'number': row, 'cells': shown})

    def outcome(self):
        return {'name': self.name, 'rows': self.rows, 'all_rows': self.all_rows, 'all_columns': self.all_columns}


def column_of(reference):
    """`B7` is in column 1."""
    column = 0
    for letter in reference:
        if not 'A' <= letter <= 'Z' or column > 1_000_000:
            break
        column = column * 26 + ord(letter) - 64
    return column - 1


BUILT_IN_DATES = {14, 15, 16, 17, 22, 27, 30, 36, 50, 57}
BUILT_IN_TIMES = {18, 19, 20, 21, 45, 46, 47}


def is_date(code):
    code = re.sub(r'"[^"]*"|\\.|\[[^\]]*\]', '', code)
    return bool(re.search(r'[dmyhs]', code, re.IGNORECASE)) and 'general' not in code.lower()


def date_styles(package):
    """Whether each cell style shows a date."""
    codes, styles, is_inside = {}, [], False
    for kind, tag, values in package.events('xl/styles.xml'):
        if kind == 'start' and tag == 'numFmt':
            codes[number(values.get('numFmtId'))] = values.get('formatCode', '')
        elif tag == 'cellXfs':
            is_inside = kind == 'start'
        elif kind == 'start' and tag == 'xf' and is_inside:
            used = number(values.get('numFmtId'))
            styles.append(used in BUILT_IN_DATES | BUILT_IN_TIMES or is_date(codes.get(used, '')))
    return styles


def date(serial, start):
    try:
        moment = start + datetime.timedelta(seconds=round(serial * 86_400))
    except OverflowError:
        return f'{serial:.15g}'
    if 0 <= serial < 1:
        return moment.strftime('%H:%M:%S')
    return moment.strftime('%Y-%m-%d' if moment.time() == datetime.time() else '%Y-%m-%d %H:%M:%S')


def shared_strings(package):
    strings, parts, depth = [], [], 0
    for kind, tag, values in package.events('xl/sharedStrings.xml'):
        if tag == 'rPh':  # how the text is pronounced
            depth += 1 if kind == 'start' else -1
        elif kind == 'start' and tag == 'si':
            parts = []
        elif kind == 'end' and tag == 'si':
            strings.append(shortened(''.join(parts), MAX_CELL))
            if len(strings) >= MAX_STRINGS:
                budget.is_cut = True
                break
        elif kind == 'start' and tag == 't':
            parts.append('')
        elif kind == 'text' and parts and depth == 0:
            parts.append(values)
    return strings


def xlsx(package):
    workbook = 'xl/workbook.xml'
    if workbook not in package.names:
        raise Problem('damaged')
    listed, start = [], datetime.datetime(1899, 12, 30)
    for kind, tag, values in package.events(workbook):
        if kind == 'start' and tag == 'sheet' and values.get('state', 'visible') == 'visible':
            listed.append((values.get('name', ''), values.get('id')))
        elif kind == 'start' and tag == 'workbookPr' and values.get('date1904') in ('1', 'true'):
            start = datetime.datetime(1904, 1, 1)
    paths, strings, dates = package.relations(workbook), shared_strings(package), date_styles(package)

    def text_of(kind, style, value):
        if kind == 's':
            index = number(value, -1)
            return strings[index] if 0 <= index < len(strings) else ''
        if kind == 'b':
            return 'TRUE' if value == '1' else 'FALSE'
        if kind in ('str', 'inlineStr', 'e', 'd'):
            return value
        try:
            amount = float(value)
        except ValueError:
            return value
        return date(amount, start) if style < len(dates) and dates[style] else f'{amount:.15g}'

    budget.is_cut |= len(listed) > MAX_SHEETS
    sheets = []
    for name, relation in listed[:MAX_SHEETS]:
        sheet, cells, row, column, cell, inside = Sheet(name), {}, 0, -1, ('n', 0), False
        value = ''
        for kind, tag, values in package.events(paths.get(relation, '')):
            if kind == 'text':
                if inside and len(value) <= MAX_CELL:
                    value += values
            elif kind == 'start':
                if tag == 'row':
                    row, cells, column = number(values.get('r'), row + 1), {}, -1
                elif tag == 'c':
                    column = column_of(values['r']) if 'r' in values else column + 1
                    cell, value = (values.get('t', 'n'), number(values.get('s'))), ''
                elif tag in ('v', 't'):
                    inside = True
            elif tag in ('v', 't'):
                inside = False
            elif tag == 'c' and value:
                cells[column] = text_of(*cell, value)
            elif tag == 'row':
                sheet.add(row, cells)
        sheets.append(sheet.outcome())
    return {'kind': 'sheets', 'sheets': sheets}


def ods(package):
    sheets, sheet, row, cells, column, value, notes = [], None, 0, {}, 0, [], 0
    repeated_row, repeated_cell, depth = 1, 1, 0
    for kind, tag, values in package.events('content.xml'):
        if tag == 'annotation':
            notes += 1 if kind == 'start' else -1
        elif kind == 'text':
            if depth and not notes:
                value.append(values)
        elif kind == 'start':
            if tag == 'table':
                if len(sheets) >= MAX_SHEETS:
                    budget.is_cut = True
                    break
                sheet, row = Sheet(values.get('name', '')), 0
            elif tag == 'table-row':
                cells, column, repeated_row = {}, 0, max(1, number(values.get('number-rows-repeated'), 1))
            elif tag in ('table-cell', 'covered-table-cell'):
                value, repeated_cell = [], max(1, number(values.get('number-columns-repeated'), 1))
            elif tag == 'p' and not notes:
                depth += 1
                if value:
                    value.append('\n')
            elif tag == 's':
                value.append(' ' * min(number(values.get('c'), 1), 100))
        elif tag == 'p' and not notes:
            depth -= 1
        elif tag in ('table-cell', 'covered-table-cell'):
            if text := ''.join(value):
                for extra in range(min(repeated_cell, MAX_COLUMNS)):
                    cells[column + extra] = text
            column += repeated_cell
        elif tag == 'table-row' and sheet:
            for extra in range(min(repeated_row, MAX_ROWS)):
                sheet.add(row + extra + 1, cells)
            row += repeated_row
        elif tag == 'table' and sheet:
            sheets.append(sheet.outcome())
            sheet = None
    return {'kind': 'sheets', 'sheets': sheets}


class Document:
    """Headings, paragraphs, list items and tables in their order."""

    def __init__(self):
        self.blocks, self.tables, self.parts = [], [], []

    def write(self, text):
        self.parts.append(text)

    def end_paragraph(self, kind='paragraph', level=0):
        text, self.parts = shortened(''.join(self.parts).strip(), MAX_TEXT), []
        if self.tables:
            if text and self.tables[-1] and self.tables[-1][-1]:
                before = self.tables[-1][-1][-1]
                self.tables[-1][-1][-1] = shortened(f'{before}\n{text}' if before else text, MAX_CELL)
        elif text:
            self.add({'kind': kind, 'level': level, 'text': text})

    def add(self, block):
        if len(self.blocks) >= MAX_BLOCKS:
            budget.is_cut = True
        elif budget.takes(block):
            self.blocks.append(block)

    def start_table(self):
        self.tables.append([])

    def start_row(self):
        if self.tables:
            self.tables[-1].append([])

    def start_cell(self):
        if self.tables and self.tables[-1]:
            self.tables[-1][-1].append('')

    def end_table(self):
        if not self.tables:
            return
        table = self.tables.pop()
        rows = [row[:MAX_COLUMNS] for row in table[:MAX_ROWS] if any(row)]
        if rows and not self.tables:
            width = max(map(len, table))
            self.add({'kind': 'table', 'rows': rows, 'all_rows': len(table), 'all_columns': width})

    def outcome(self):
        return {'kind': 'document', 'blocks': self.blocks}


def docx(package):
    main = 'word/document.xml'
    if main not in package.names:
        raise Problem('damaged')
    forms, style = {}, ''
    for kind, tag, values in package.events('word/styles.xml'):
        if kind == 'start' and tag == 'style':
            style = values.get('styleId', '')
        elif kind == 'start' and tag == 'numPr' and style not in forms:
            forms[style] = ('item', 0)
        elif kind == 'start' and tag == 'name':
            name = values.get('val', '').lower()
            match = re.fullmatch(r'heading ([1-9])', name)
            if match or name == 'title':
                forms[style] = ('heading', int(match[1]) if match else 1)
    document, inside, form, hidden = Document(), False, ('paragraph', 0), 0
    for kind, tag, values in package.events(main):
        if tag in ('del', 'instrText', 'Fallback'):  # deleted text, field codes, and second versions of shapes
            hidden += 1 if kind == 'start' else -1
        elif kind == 'text':
            if inside and not hidden:
                document.write(values)
        elif kind == 'start':
            if tag == 'p':
                form = ('paragraph', 0)
            elif tag == 'pStyle':
                form = forms.get(values.get('val'), form)
            elif tag == 'ilvl' and form[0] != 'heading':
                form = ('item', min(max(number(values.get('val')), 0), 8))
            elif tag == 't':
                inside = True
            elif tag in ('tab', 'br', 'cr') and document.parts:
                document.write('\t' if tag == 'tab' else '\n')
            elif tag == 'tbl':
                document.start_table()
            elif tag == 'tr':
                document.start_row()
            elif tag == 'tc':
                document.start_cell()
        elif tag == 't':
            inside = False
        elif tag == 'p':
            document.end_paragraph(*form)
        elif tag == 'tbl':
            document.end_table()
    return document.outcome()


def odt(package):
    if 'content.xml' not in package.names:
        raise Problem('damaged')
    document, form, depth, lists, hidden = Document(), ('paragraph', 0), 0, 0, 0
    for kind, tag, values in package.events('content.xml'):
        if tag in ('annotation', 'tracked-changes', 'note'):
            hidden += 1 if kind == 'start' else -1
        elif hidden:
            continue
        elif kind == 'text':
            if depth:
                document.write(values)
        elif kind == 'start':
            if tag in ('p', 'h'):
                depth += 1
                level = min(max(number(values.get('outline-level'), 1), 1), 9)
                form = ('heading', level) if tag == 'h' else ('item', min(lists - 1, 8)) if lists else ('paragraph', 0)
            elif tag == 's':
                document.write(' ' * min(number(values.get('c'), 1), 100))
            elif tag in ('tab', 'line-break'):
                document.write('\t' if tag == 'tab' else '\n')
            elif tag == 'list':
                lists += 1
            elif tag == 'table':
                document.start_table()
            elif tag == 'table-row':
                document.start_row()
            elif tag == 'table-cell':
                document.start_cell()
        elif tag in ('p', 'h'):
            depth -= 1
            document.end_paragraph(*form)
        elif tag == 'list':
            lists -= 1
        elif tag == 'table':
            document.end_table()
    return document.outcome()


def pptx(package):
    main = 'ppt/presentation.xml'
    if main not in package.names:
        raise Problem('damaged')
    events = package.events(main)
    listed = [values.get('id') for kind, tag, values in events if kind == 'start' and tag == 'sldId']
    paths, document = package.relations(main), Document()
    for index, relation in enumerate(listed, 1):
        # The title may come after other shapes, so the slide is read before it is added.
        slide, title, is_title, inside, level = Document(), [], False, False, 0
        for kind, tag, values in package.events(paths.get(relation, '')):
            if kind == 'text':
                if inside:
                    slide.write(values)
            elif kind == 'start':
                if tag == 'ph':
                    is_title = values.get('type') in ('title', 'ctrTitle')
                elif tag == 'pPr':
                    level = min(max(number(values.get('lvl')), 0), 8)
                elif tag == 'p':
                    level = 0
                elif tag == 't':
                    inside = True
                elif tag == 'br':
                    slide.write('\n')
                elif tag == 'tbl':
                    slide.start_table()
                elif tag == 'tr':
                    slide.start_row()
                elif tag == 'tc':
                    slide.start_cell()
            elif tag == 't':
                inside = False
            elif tag == 'sp':
                is_title = False
            elif tag == 'p':
                if is_title:
                    title.append(''.join(slide.parts).strip())
                    slide.parts = []
                else:
                    slide.end_paragraph('item' if level else 'paragraph', level)
            elif tag == 'tbl':
                slide.end_table()
        heading = {'kind': 'heading', 'level': 1, 'text': shortened(' '.join(filter(None, title)), 500), 'slide': index}
        document.add(heading)
        for block in slide.blocks[: max(0, MAX_BLOCKS - len(document.blocks))]:
            document.blocks.append(block)
    return document.outcome()


def parquet(file):
    try:
        import pyarrow.parquet
    except ImportError:
        raise Problem('missing_package', 'pyarrow') from None
    try:
        table = pyarrow.parquet.ParquetFile(file)
        names = table.schema_arrow.names
        batch = next(table.iter_batches(batch_size=MAX_ROWS, columns=names[:MAX_COLUMNS]), None)
    except (pyarrow.ArrowException, OSError) as error:
        raise Problem('damaged', shortened(str(error), 300)) from None
    columns = [] if batch is None else [column.to_pylist() for column in batch.columns]
    rows = []
    for values in zip(*columns):
        row = [shortened('' if value is None else str(value), MAX_CELL) for value in values]
        if budget.takes(row):
            rows.append(row)
    shown = [shortened(name, MAX_CELL) for name in names[:MAX_COLUMNS]]
    return {'kind': 'table', 'columns': shown, 'rows': rows, 'all_rows': table.metadata.num_rows, 'all_columns': len(names)}


def convert():
    try:
        file = io.BytesIO(base64.b64decode(data)) if data else open(path, 'rb')
    except FileNotFoundError:
        raise Problem('missing_file') from None
    with file:
        if kind == 'parquet':
            return parquet(file)
        try:
            return {'xlsx': xlsx, 'ods': ods, 'docx': docx, 'odt': odt, 'pptx': pptx}[kind](Package(file))
        except expat.ExpatError as error:
            raise Problem('damaged', str(error)) from None
        except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, zipfile.zlib.error) as error:
            # Parts with a password raise a `RuntimeError`.
            raise Problem('encrypted' if 'encrypted' in str(error) else 'damaged', shortened(str(error), 300)) from None


try:
    result = {**convert(), 'is_cut': budget.is_cut}
except Problem as problem:
    result = {'kind': 'problem', 'code': problem.code, 'detail': problem.detail}
