"""From plain data to a model; pydantic's findings become messages with place and expectation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ValidationError

from .problems import excerpt, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic_core import ErrorDetails

    from .documents import Document
    from .models import Spec
    from .problems import Path, Problems

_EXPECTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}

_BOUNDS = {
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "string_too_short": "text that is not empty",
    "too_short": "at least {min_length} of them",
}


def validate(model: type[Spec], document: Document, problems: Problems) -> Spec | None:
    """The spec that ``document`` holds, or None when ``problems`` got the reasons."""
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        for path, message, expected in _findings(model, error):
            problems.add(document.locate(path), path, message, expected)
        return None


def _findings(model: type[Spec], error: ValidationError) -> Iterator[tuple[Path, str, str]]:
    for detail in error.errors(include_url=False):
        # pydantic marks what is wrong with a key, not its value, by a last part of its own.
        path = tuple(part for part in detail["loc"] if part != "[key]")
        yield path, *_explain(detail, model, path)


def _explain(detail: ErrorDetails, model: type[Spec], path: Path) -> tuple[str, str]:
    kind, context = detail["type"], detail.get("ctx", {})
    found = excerpt(detail["input"])
    if kind == "spec":
        return str(context["message"]), str(context["expected"])
    if kind == "missing":
        return "is missing", "this key"
    if kind == "extra_forbidden":
        known = _keys(_model_at(model, path[:-1]))
        return f"is not a known key{nearest(str(path[-1]), known)}", f"one of {', '.join(known)}"
    if kind == "literal_error":
        near = nearest(str(detail["input"]), str(context["expected"]).replace("'", "").split(", "))
        return f"{found} is not possible{near}", str(context["expected"])
    if kind in _EXPECTED:
        quoted = " (in quotes)" if kind == "string_type" and detail["input"] is not None else ""
        return f"{found} does not fit", _EXPECTED[kind] + quoted
    if kind in _BOUNDS:
        return f"{found} does not fit", _BOUNDS[kind].format(**context)
    return f"{found} does not fit", detail["msg"].removeprefix("Input should be ")


def _keys(model: type[BaseModel] | None) -> list[str]:
    if model is None:
        return []
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_at(model: type[BaseModel], path: Path) -> type[BaseModel] | None:
    """The model of the mapping at ``path`` inside ``model``."""
    current: Any = model
    for part in path:
        if isinstance(current, type) and issubclass(current, BaseModel):
            by_key = {f.alias or name: f for name, f in current.model_fields.items()}
            current = by_key[str(part)].annotation if part in by_key else None
        else:
            arguments = get_args(current)
            current = arguments[-1] if arguments else None
        current = next(_models_in(current), current)
    return next(_models_in(current), None)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that ``annotation`` is or allows directly (not as items of a list)."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif not (hasattr(annotation, "__origin__") and annotation.__origin__ in (list, dict)):
        for argument in get_args(annotation):
            yield from _models_in(argument)
