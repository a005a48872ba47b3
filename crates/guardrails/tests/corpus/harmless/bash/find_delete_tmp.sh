find /tmp/cache -name '*.pyc' -delete
