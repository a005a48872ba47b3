from coracle import ToolError
from servers.mail import list_messages, send_message

for message in list_messages(folder="inbox"):
    try:
        send_message(to=message["from"], subject=f"Re: {message['subject']}", body="Thank you.")
    except ToolError as error:
        print(error.code, error.message)
        if not error.retryable:
            raise
