"""Skills: saved code that can be imported, and instructions that can be read.

Like `helpers`, these functions are added to the user's namespace by name (see `interpreter.SKILLS`). The host stores
the skills; `from skills.NAME import …` imports the newest version.
"""

from __future__ import annotations

import sys

from coracle import ToolError
from coracle_guest import calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def save_skill(
    name: str,
    code: str,
    description: str = "",
    tags: str | list[str] = "",
    *,
    example: str | None = None,
    tools: list[str] | None = None,
    language: str = "python",
    author: str | None = None,
) -> dict[str, Any]:
    """Save code under a name, so that later programs can import it from `skills.NAME`, or add a version to that name.

    `example` is a program that uses it: it is run in a sandbox first, and if it fails, nothing is saved.
    """
    saved: dict[str, Any] = _ask(
        "save",
        {
            "name": name,
            "code": code,
            "description": description,
            "tags": tags,
            "example": example,
            "tools": tools,
            "language": language,
            "author": author,
        },
    )
    _forget(name)
    return saved


def load_skill(name: str, version: int | None = None) -> str:
    """Return the source of a skill, by default of its newest version."""
    source: str = _ask("load", {"name": name, "version": version})["code"]
    return source


def list_skills() -> list[dict[str, Any]]:
    """Return all saved skills, each as a dict with `name`, `description`, `tags`, `version` and more."""
    skills: list[dict[str, Any]] = _ask("list", {})["skills"]
    return skills


def search_skills(query: str = "", limit: int = 10) -> list[dict[str, Any]]:
    """Find skills by what they do, best first: saved code, and instructions."""
    skills: list[dict[str, Any]] = _ask("search", {"query": query, "limit": limit})["skills"]
    return skills


def delete_skill(name: str) -> str:
    """Delete a saved skill with all its versions."""
    _ask("delete", {"name": name})
    _forget(name)
    return f"Deleted {name}"


def get_skill(name: str, path: str | None = None) -> str:
    """Return the instructions with this name (`SKILL.md`), or a file beside them."""
    text: str = _ask("get", {"name": name, "path": path})["content"]
    return text


def _ask(act: str, params: dict[str, Any]) -> Any:
    try:
        given = {name: value for name, value in params.items() if value is not None}
        return calls.call(f"skill.{act}", given)
    except calls.CallError as error:
        tool = "list_skills" if act == "list" else "search_skills" if act == "search" else f"{act}_skill"
        raise ToolError("coracle", tool, error.code, error.message, error.retryable) from None


def _forget(name: str) -> None:
    """Make the next import reload the skill."""
    sys.modules.pop(f"skills.{name}", None)
    package = sys.modules.get("skills")
    if package is not None:
        package.__dict__.pop(name, None)
    finder = sys.path_importer_cache.get("/coracle/skills")
    if finder is not None:
        finder.invalidate_caches()
