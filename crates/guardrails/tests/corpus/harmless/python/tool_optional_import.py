try:
    from servers.slack import post_message
except ImportError:
    post_message = None

if post_message:
    post_message(channel="#general", text="done")
else:
    print("done")
