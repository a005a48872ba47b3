# Spreadsheets: the first rows of each sheet.
import datetime
import re

MAX_SHEETS = 20
MAX_STRINGS = 1_000_000


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


def xlsx(file):
    package = Package(file)
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


def ods(file):
    package = Package(file)
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


READERS = {'xlsx': xlsx, 'ods': ods}
