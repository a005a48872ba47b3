# Documents: their text, without layout.
import re

MAX_TEXT = 20_000  # characters in one paragraph
MAX_BLOCKS = 3_000


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


def docx(file):
    package = Package(file)
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


def odt(file):
    package = Package(file)
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


def pptx(file):
    package = Package(file)
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


READERS = {'docx': docx, 'odt': odt, 'pptx': pptx}
