# Writes files of all kinds that the page previews to /workspace/samples, with the standard library. The documents have
# only the parts that readers need. LINK stands for the address of a server that must not be reached.
import os
import zipfile

FOLDER = '/workspace/samples'
os.makedirs(FOLDER, exist_ok=True)
MAIN = 'http://schemas.openxmlformats.org/spreadsheetml/2006/main'
RELATIONS = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships'
PACKAGE = 'http://schemas.openxmlformats.org/package/2006/relationships'
HOSTILE = '&lt;img src=x onerror=alert(1)&gt;'


def package(name, parts):
    with zipfile.ZipFile(f'{FOLDER}/{name}', 'w', zipfile.ZIP_DEFLATED) as archive:
        for path, content in parts.items():
            archive.writestr(path, content)


def relations(*targets):
    listed = ''.join(f'<Relationship Id="r{number}" Target="{target}"/>' for number, target in enumerate(targets, 1))
    return f'<Relationships xmlns="{PACKAGE}">{listed}</Relationships>'


rows = ''.join(
    f'<row r="{n}"><c r="A{n}" t="s"><v>1</v></c><c r="C{n}"><v>{n * 1.5}</v></c><c r="D{n}" s="1"><v>{46000 + n}</v></c></row>'
    for n in range(2, 302)
)
header = '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="C1" t="inlineStr"><is><t>Amount</t></is></c><c r="D1" t="str"><v>When</v></c></row>'
sheet = f'<worksheet xmlns="{MAIN}"><sheetData>%s</sheetData></worksheet>'
WORKBOOK = {
    'xl/workbook.xml': f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets><sheet name="Sales" r:id="r1"/>'
    f'<sheet name="{HOSTILE}" r:id="r2"/><sheet name="Secret" state="hidden" r:id="r1"/></sheets></workbook>',
    'xl/_rels/workbook.xml.rels': relations('worksheets/one.xml', '/xl/worksheets/two.xml'),
    'xl/sharedStrings.xml': f'<sst xmlns="{MAIN}"><si><t>Region</t></si><si><r><t>No</t></r><r><t>rth</t></r></si></sst>',
    'xl/styles.xml': f'<styleSheet xmlns="{MAIN}"><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>',
    'xl/worksheets/one.xml': sheet % (header + rows),
    'xl/worksheets/two.xml': sheet % f'<row r="7"><c r="B7" t="inlineStr"><is><t>{HOSTILE}</t></is></c></row>',
}
package('sales.xlsx', WORKBOOK)
# Entities that would expand to a gigabyte.
entities = ''.join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
bomb = f'<!DOCTYPE sst [<!ENTITY e0 "lol">{entities}]><sst xmlns="{MAIN}"><si><t>&e9;</t></si></sst>'
package('entities.xlsx', {**WORKBOOK, 'xl/sharedStrings.xml': bomb})
# 40 MB in a few kilobytes.
package('large.xlsx', {**WORKBOOK, 'xl/worksheets/one.xml': sheet % (header + ' ' * 40_000_000 + rows)})
open(f'{FOLDER}/damaged.xlsx', 'w').write('no archive')

WORD = 'http://schemas.openxmlformats.org/wordprocessingml/2006/main'
word = lambda text, style='': f'<w:p><w:pPr>{style}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'
item = '<w:numPr><w:ilvl w:val="0"/></w:numPr>'
cells = lambda *texts: '<w:tr>' + ''.join(f'<w:tc>{word(text)}</w:tc>' for text in texts) + '</w:tr>'
package('report.docx', {
    'word/styles.xml': f'<w:styles xmlns:w="{WORD}"><w:style w:styleId="H3"><w:name w:val="heading 3"/></w:style></w:styles>',
    'word/document.xml': f'<w:document xmlns:w="{WORD}"><w:body>{word("A report", "<w:pStyle w:val=" + chr(34) + "H3" + chr(34) + "/>")}'
    f'{word("It has " + HOSTILE)}{word("first", item)}{word("second", item)}'
    f'<w:tbl>{cells("City", "Boats")}{cells("Cardigan", "12")}</w:tbl></w:body></w:document>',
})

SLIDES = 'http://schemas.openxmlformats.org/presentationml/2006/main'
DRAWING = 'http://schemas.openxmlformats.org/drawingml/2006/main'
shape = lambda text, kind: (
    f'<p:sp><p:nvSpPr><p:nvPr>{kind}</p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>'
)
slide = lambda *shapes: f'<p:sld xmlns:p="{SLIDES}" xmlns:a="{DRAWING}">{"".join(shapes)}</p:sld>'
package('talk.pptx', {
    'ppt/presentation.xml': f'<p:presentation xmlns:p="{SLIDES}" xmlns:r="{RELATIONS}"><p:sldIdLst><p:sldId r:id="r2"/>'
    '<p:sldId r:id="r1"/></p:sldIdLst></p:presentation>',
    'ppt/_rels/presentation.xml.rels': relations('slides/a.xml', 'slides/b.xml'),
    'ppt/slides/a.xml': slide(shape('The last words', '')),
    'ppt/slides/b.xml': slide(shape('Below the title', ''), shape('Plans', '<p:ph type="title"/>')),
})

OPEN = ' '.join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ('office', 'text', 'table')
)
package('letter.odt', {
    'content.xml': f'<office:document-content {OPEN}><office:body><office:text><text:h text:outline-level="1">A letter</text:h>'
    '<text:p>Dear<text:s text:c="2"/>reader</text:p><text:list><text:list-item><text:p>one point</text:p></text:list-item></text:list>'
    '</office:text></office:body></office:document-content>',
})
package('plan.ods', {
    'content.xml': f'<office:document-content {OPEN}><office:body><office:spreadsheet><table:table table:name="Plan"><table:table-row>'
    '<table:table-cell table:number-columns-repeated="2"><text:p>same</text:p></table:table-cell></table:table-row>'
    '<table:table-row table:number-rows-repeated="1000000"><table:table-cell/></table:table-row><table:table-row><table:table-cell>'
    '<text:p>far below</text:p></table:table-cell></table:table-row></table:table></office:spreadsheet></office:body>'
    '</office:document-content>',
})
open(f'{FOLDER}/data.parquet', 'wb').write(b'PAR1PAR1')
open(f'{FOLDER}/page.html', 'w').write("""<!doctype html><html lang="en"><head><style>
  body { font-family: sans-serif; margin: 2rem } h1 { color: rgb(0, 128, 128) } .tall { height: 3000px }
</style></head><body><h1>Quarterly report</h1><p>See <a href="#end">the end</a> and <a href="https://example.org/">a site</a>.</p>
<p id="styled" style="padding: 7px">Styled</p><img alt="A dot" src="data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7">
<svg width="40" height="40"><rect width="40" height="40" fill="teal"/></svg><div class="tall"></div><p id="end">The end</p></body></html>""")


def pdf(name, texts):
    """A PDF file with one text on each page, and actions that must not be carried out."""
    count = len(texts)
    script = '<< /S /JavaScript /JS (app.launchURL\\("LINK/script"\\)) >>'
    more = f'/OpenAction << /S /URI /URI (LINK/open) >> /Names << /JavaScript << /Names [(a) {script}] >> >>'
    kids = ' '.join(f'{4 + 2 * n} 0 R' for n in range(count))
    objects = [f'<< /Type /Catalog /Pages 2 0 R {more} >>', f'<< /Type /Pages /Kids [{kids}] /Count {count} >>',
               '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>']
    for number, text in enumerate(texts):
        drawing = f'BT /F1 24 Tf 72 700 Td ({text}) Tj ET 0.1 0.5 0.5 rg 72 500 200 100 re f'
        link = '/Annots [<< /Type /Annot /Subtype /Link /Rect [0 0 612 792] /A << /S /URI /URI (LINK/page) >> >>]'
        objects += [f'<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R {link} '
                    '/Resources << /Font << /F1 3 0 R >> >> >>',
                    f'<< /Length {len(drawing)} >>\nstream\n{drawing}\nendstream']
    body, places = '%PDF-1.7\n', []
    for number, content in enumerate(objects, 1):
        places.append(len(body))
        body += f'{number} 0 obj\n{content}\nendobj\n'
    table = ''.join(f'{place:010} 00000 n \n' for place in places)
    body += f'xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\n'
    open(f'{FOLDER}/{name}', 'w').write(body + f'startxref\n{body.index("xref")}\n%%EOF\n')


pdf('paper.pdf', ['The first page', 'The second page', 'The last page'])
open(f'{FOLDER}/damaged.pdf', 'w').write('%PDF-1.7 damaged')
