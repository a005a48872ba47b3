rsync -a --delete --exclude='*.tmp' src/ backup/
