# expect: import
from coracle_guest import channel

channel.send({"kind": "tool", "server": "mail", "tool": "send"})
