"""A skill is saved code: tested when it is saved, and imported by later programs."""

from servers.files import read_text_file

CODE = '''
import csv
import io


def totals(text, by, of):
    """Adds up the column `of` of a CSV text for each value of the column `by`."""
    sums = {}
    for row in csv.DictReader(io.StringIO(text)):
        sums[row[by]] = sums.get(row[by], 0) + int(row[of])
    return sums
'''

# The example runs in a separate sandbox first. If it fails, the skill is not saved.
EXAMPLE = '''
from skills.totals import totals
assert totals("a,b\\nx,1\\nx,2\\n", by="a", of="b") == {"x": 3}
'''

try:
    from skills.totals import totals
except ImportError:
    save_skill("totals", CODE, "Adds up a column of a CSV text, grouped by another", tags="csv, report", example=EXAMPLE)
    print("saved: the next program can import it")
    result = [skill["name"] for skill in list_skills()]
else:
    for team, hours in sorted(totals(read_text_file(path="hours.csv")["content"], by="team", of="hours").items()):
        print(f"{team}: {hours}")
    result = "imported"
