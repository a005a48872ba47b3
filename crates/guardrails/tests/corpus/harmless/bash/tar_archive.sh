tar czf /artifacts/site.tar.gz --exclude=.git site
tar tzf /artifacts/site.tar.gz | head
