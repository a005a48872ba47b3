find reports -name '*.tmp' -mtime +7 -exec rm -f {} +
