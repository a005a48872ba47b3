# expect: dynamic-code
from servers.notes import read_note

exec(read_note(name="startup"))
