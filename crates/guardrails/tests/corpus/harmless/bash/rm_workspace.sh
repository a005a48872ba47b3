rm -rf /workspace/cache/* /tmp/session-*
