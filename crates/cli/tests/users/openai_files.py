"""Uploads files and reads those of containers with the official client, and validates them against its types."""

import base64
import sys

from openai import NotFoundError, OpenAI
from openai.types import FileDeleted, FileObject
from openai.types.containers import FileListResponse, FileRetrieveResponse

BASE, KEY = sys.argv[1:]
CLIENT = OpenAI(base_url=BASE, api_key=KEY, max_retries=0)
MODEL = "lab/demo"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def strict(model, value):
    """A value that is valid to the letter."""
    return model.model_validate(value.to_dict())


def files():
    content = b"a,b\n1,2\n"
    file = CLIENT.files.create(file=("data.csv", content), purpose="user_data")
    strict(FileObject, file)
    assert (file.id[:5], file.bytes, file.filename, file.purpose) == ("file-", 8, "data.csv", "user_data"), file
    assert CLIENT.files.retrieve(file.id) == file
    assert CLIENT.files.content(file.id).read() == content
    CLIENT.files.create(file=("other.txt", b""), purpose="assistants")
    listed = list(CLIENT.files.list(limit=1))
    assert {one.filename for one in listed} == {"data.csv", "other.txt"}, listed
    assert [one.id for one in CLIENT.files.list(purpose="user_data", order="asc")] == [file.id]
    part = {"type": "input_file", "file_id": file.id}
    response = CLIENT.responses.create(model=MODEL, input=[{"role": "user", "content": [part]}])
    assert "1,2" in response.output_text, response
    message = {"role": "user", "content": [{"type": "file", "file": {"file_id": file.id}}]}
    answer = CLIENT.chat.completions.create(model=MODEL, messages=[message])
    assert "1,2" in answer.choices[0].message.content, answer
    deleted = CLIENT.files.delete(file.id)
    assert strict(FileDeleted, deleted).deleted
    for act in [CLIENT.files.retrieve, CLIENT.files.delete, CLIENT.files.content]:
        try:
            act(file.id)
        except NotFoundError:
            continue
        raise AssertionError(act)


def images():
    image = CLIENT.files.create(file=("dot.png", PIXEL), purpose="vision")
    text = CLIENT.files.create(file=("data.csv", b"x"), purpose="user_data")
    ask = lambda file: CLIENT.responses.create(  # noqa: E731
        model=MODEL,
        input=[{"role": "user", "content": [{"type": "input_image", "file_id": file.id, "detail": "auto"}]}],
    )
    assert ask(image).status == "completed"
    try:
        ask(text)
    except Exception as error:
        assert "is not an image" in str(error), error
    else:
        raise AssertionError("a text was accepted as an image")


def containers():
    response = CLIENT.responses.create(model=MODEL, input="[script:write]")
    [citation] = response.output[-1].content[0].annotations
    assert (citation.type, citation.filename) == ("container_file_citation", "report.txt"), citation
    place = {"container_id": citation.container_id}
    assert CLIENT.containers.files.content.retrieve(citation.file_id, **place).read() == b"figures"
    file = CLIENT.containers.files.retrieve(citation.file_id, **place)
    strict(FileRetrieveResponse, file)
    assert (file.id, file.path, file.bytes) == (citation.file_id, "/artifacts/report.txt", 7), file
    listed = list(CLIENT.containers.files.list(citation.container_id))
    assert [strict(FileListResponse, one).id for one in listed] == [citation.file_id], listed
    CLIENT.containers.files.delete(citation.file_id, **place)
    assert list(CLIENT.containers.files.list(citation.container_id)) == []


for part in [files, images, containers]:
    part()
    print(part.__name__, "ok")
