# expect: destructive
spawn() { while true; do spawn & done; }
spawn
