git -C site log --since='1 month ago' --pretty='%an' | sort | uniq -c | sort -rn
