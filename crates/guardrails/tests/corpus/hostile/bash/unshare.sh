# expect: break-out
unshare -Urm bash
