"""Functions that programs may use without importing them.

They are added to the user's namespace by name (see `interpreter.HELPERS`), so that small programs stay small. Relative
paths are relative to the working directory.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable


def read_file(path: str | os.PathLike[str], encoding: str | None = "utf-8") -> str | bytes:
    """Return the content of a file as text, or as bytes if `encoding` is None."""
    if encoding is None:
        with open(path, "rb") as file:
            return file.read()
    with open(path, encoding=encoding) as text:
        return text.read()


def write_file(path: str | os.PathLike[str], content: Any) -> str:
    """Write text, bytes, or anything else as indented JSON. Missing folders are created.

    >>> write_file("out/report.txt", "done")
    'Successfully wrote 4 bytes to out/report.txt'
    """
    if isinstance(content, str):
        data = content.encode("utf-8", "surrogateescape")
    elif isinstance(content, (bytes, bytearray, memoryview)):
        data = bytes(content)
    else:
        data = _json(content).encode("utf-8")
    folder = os.path.dirname(os.fspath(path))
    if folder:
        os.makedirs(folder, exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    return f"Successfully wrote {len(data)} bytes to {os.fspath(path)}"


def list_files(path: str | os.PathLike[str] = ".", pattern: str = "*") -> list[str]:
    """Return the files in a folder whose names match, sorted; `**/*.csv` also searches subfolders.

    The paths can be passed to `read_file`: they begin with `path`, unless that is the working directory.
    """
    import glob

    folder = os.fspath(path)
    if not os.path.isdir(folder):
        raise NotADirectoryError(f"not a folder: {folder}")
    # In a workspace, these are links to modules, and not files of the user.
    links = {name for name in ("servers", "skills") if os.path.islink(os.path.join(folder, name))}
    found = glob.glob(pattern, root_dir=folder, recursive=True)
    own = (name for name in found if name.partition("/")[0] not in links)
    paths = (os.path.normpath(os.path.join(folder, name)) for name in own)
    return sorted({name for name in paths if os.path.isfile(name)})


def delete_file(path: str | os.PathLike[str]) -> str:
    """Delete one file."""
    os.remove(path)
    return f"Deleted {os.fspath(path)}"


def filter_by_field(items: Iterable[Any], field: str, value: Any) -> list[Any]:
    """Return the items whose field equals `value`, or for which `value(field)` is true if it is a function.

    Items may be dictionaries or objects; `"user.name"` accesses nested ones. An item without the field never matches.

    >>> filter_by_field([{"n": 1}, {"n": 2}], "n", lambda n: n > 1)
    [{'n': 2}]
    """
    matches: Callable[[Any], Any] = value if callable(value) else lambda found: found == value
    return [item for item in items if (found := _field(item, field)) is not _MISSING and matches(found)]


def summarize_list(items: Iterable[Any], max_items: int = 5, *, limit: int | None = None) -> dict[str, Any]:
    """Return the number of items, the first few of them, and the fields of those that are dictionaries.

    `limit` is an alias of `max_items`; the first few are then also returned as `sample`.

    >>> summarize_list(range(10), 2)
    {'count': 10, 'items': [0, 1], 'remaining': 8}
    """
    everything = list(items)
    if limit is not None:
        max_items = limit
    shown = everything[: max(max_items, 0)]
    summary: dict[str, Any] = {"count": len(everything), "items": shown, "remaining": len(everything) - len(shown)}
    fields = _columns([item for item in shown if isinstance(item, dict)])
    if fields:
        summary["fields"] = fields
    if limit is not None:
        summary["sample"] = shown
    return summary


def aggregate_stats(
    items: Iterable[Any],
    field: str | Iterable[str] | None = None,
    *,
    numeric_fields: Iterable[str] | None = None,
) -> dict[str, Any]:
    """Return count, sum, mean, median, min, max and standard deviation of a numeric field.

    Text that can be parsed as a number counts as one; `missing` is the number of items without a number. Items that are
    numbers themselves need no field. With several fields, or without one, the result has `NAME_sum`, `NAME_avg`,
    `NAME_min` and `NAME_max` for each of them, or for every field that has numbers.

    >>> aggregate_stats([{"n": 1}, {"n": 3}, {}], "n")["mean"]
    2
    >>> aggregate_stats([{"n": 1}, {"n": 3}])
    {'count': 2, 'n_sum': 4, 'n_avg': 2, 'n_min': 1, 'n_max': 3}
    """
    if isinstance(field, str):
        stats: dict[str, Any] = {"field": field}
        stats.update(_stats(_field(item, field) for item in items))
        return stats
    everything = list(items)
    wanted = field if field is not None else numeric_fields
    rows = [item for item in everything if isinstance(item, dict)]
    if wanted is None and everything and not rows:
        return _stats(everything)
    names = _numeric(rows) if wanted is None else list(wanted)
    summary: dict[str, Any] = {"count": len(everything)}
    for name in names:
        stats = _stats(_field(item, name) for item in everything)
        if stats["count"]:
            short = (("sum", "sum"), ("avg", "mean"), ("min", "min"), ("max", "max"))
            summary.update({f"{name}_{ending}": stats[key] for ending, key in short})
    return summary


def _numeric(rows: list[dict[Any, Any]]) -> list[Any]:
    """The fields that have a number in at least one row. Text that looks like one does not count, as it may be a
    name."""
    return [name for name in _columns(rows) if any(_is_number(row.get(name)) for row in rows)]


def _stats(values: Iterable[Any]) -> dict[str, Any]:
    import statistics

    numbers: list[Any] = []
    missing = 0
    for value in values:
        number = _number(value)
        if number is None:
            missing += 1
        else:
            numbers.append(number)
    stats: dict[str, Any] = {"count": len(numbers), "missing": missing}
    if numbers:
        stats["sum"] = sum(numbers)
        stats["mean"] = statistics.mean(numbers)
        stats["median"] = statistics.median(numbers)
        stats["min"] = min(numbers)
        stats["max"] = max(numbers)
        stats["stdev"] = statistics.stdev(numbers) if len(numbers) > 1 else 0.0
    return stats


def format_output(data: Any, format: str | int = "json", *, max_chars: int | None = None) -> str:
    """Format data as `json`, `text` (one line per item), `table`, `markdown` or `csv`, cut after `max_chars`.

    The last three expect a list of dictionaries, one per row; other values become a single column. A number instead of
    the format is `max_chars`.
    """
    if isinstance(format, int):
        format, max_chars = "json", format
    if max_chars is not None:
        return format_output(data, format)[: max(max_chars, 0)]
    if format == "json":
        return _json(data)
    if format == "text":
        return _lines(data)
    if format not in ("table", "markdown", "csv"):
        raise ValueError(f"no such format: {format!r}; use json, text, table, markdown or csv")
    columns, rows = _grid(data)
    if format == "csv":
        import csv
        import io

        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([columns, *rows])
        return out.getvalue()
    if format == "markdown":
        rows = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
        lines = [columns, ["---"] * len(columns), *rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)
    rows = [[cell.replace("\n", " ") for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *rows)]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in [columns, rule, *rows]
    )


_MISSING: Any = object()


def _field(item: Any, path: str) -> Any:
    if isinstance(item, dict) and path in item:
        return item[path]
    for name in path.split("."):
        if isinstance(item, dict):
            item = item.get(name, _MISSING)
        elif isinstance(item, (list, tuple)) and name.isdecimal():
            item = item[int(name)] if int(name) < len(item) else _MISSING
        else:
            item = getattr(item, name, _MISSING)
        if item is _MISSING:
            break
    return item


def _is_number(value: Any) -> bool:
    from numbers import Number

    return isinstance(value, Number) and not isinstance(value, bool)


def _number(value: Any) -> Any:
    if _is_number(value):
        # NaN cannot be ordered.
        return value if value == value else None
    if isinstance(value, str):
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
    return None


def _json(data: Any) -> str:
    import json

    from coracle_guest import encode

    # A file may have any size, so there is no budget here.
    plain = encode.Encoder(sys.maxsize).convert(data)
    return json.dumps(plain, indent=2, ensure_ascii=False)


def _lines(data: Any) -> str:
    if isinstance(data, str):
        return data
    if isinstance(data, dict):
        return "\n".join(f"{key}: {_cell(value)}" for key, value in data.items())
    if isinstance(data, (list, tuple, set, frozenset)):
        return "\n".join(
            ", ".join(_lines(item).split("\n")) if isinstance(item, dict) else _cell(item) for item in data
        )
    return str(data)


def _grid(data: Any) -> tuple[list[str], list[list[str]]]:
    if isinstance(data, dict):
        data = [{"key": key, "value": value} for key, value in data.items()]
    elif isinstance(data, str) or not hasattr(data, "__iter__"):
        data = [data]
    items = [item if isinstance(item, dict) else {"value": item} for item in data]
    columns = _columns(items)
    return [str(column) for column in columns], [[_cell(item.get(column, "")) for column in columns] for item in items]


def _columns(items: list[dict[Any, Any]]) -> list[Any]:
    """The keys of all items, in the order of their first occurrence."""
    return list(dict.fromkeys(key for item in items for key in item))


def _cell(value: Any) -> str:
    return "" if value is None else str(value)
