"""Validates a job file's shape by our JSON Schemas (draft 2020-12), and words the errors.

A schema may state in `x-says` what is wanted, in words; other programs ignore the key.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from itertools import islice
from pathlib import Path as File
from typing import Any, cast

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend

from portal.job_file.loader import Document
from portal.job_file.problems import MAX_PROBLEMS, Path, Problem, path_text

_FOLDER = File(__file__).parent / "schemas"
_KIND_NAMES = {
    "object": "a mapping",
    "array": "a list",
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "empty",
}
_LONGEST_GUESS = 40


def schema_job() -> dict[str, Any]:
    """The schema of a whole job file, self-contained (`extras.berth` included)."""
    schema = _read("job.schema.json")
    berth = schema_berth()
    del berth["$schema"]  # a nested $schema would switch to the library's own keywords
    schema["$defs"]["berth"] = berth
    return schema


def schema_berth() -> dict[str, Any]:
    """The schema of `extras.berth` alone."""
    return _read("extras-berth.schema.json")


def shape_problems(document: Document) -> list[Problem]:
    """Every place where the file deviates from the schema, at most `MAX_PROBLEMS` + 1."""
    errors = islice(_validator().iter_errors(document.value), MAX_PROBLEMS + 1)
    return [_problem(error, document) for error in errors]


def _read(name: str) -> dict[str, Any]:
    return copy.deepcopy(_parsed(name))


@cache
def _parsed(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((_FOLDER / name).read_text())
    return schema


@cache
def _validator() -> Validator:
    keywords = {
        "additionalProperties": _additional_properties,
        "pattern": _pattern,
        "propertyNames": _property_names,
        "required": _required,
    }
    job_validator: type[Validator] = extend(Draft202012Validator, keywords)  # type: ignore[no-untyped-call]
    return job_validator(schema_job())


def _required(
    validator: Validator, names: list[str], instance: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    """The standard check, with the missing key in the path."""
    if isinstance(instance, dict):
        for name in names:
            if name not in instance:
                yield ValidationError(name, path=(name,))


def _additional_properties(
    validator: Any, rule: Any, instance: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    """The standard check, with the extra key in the path; no schema here has patternProperties."""
    if not isinstance(instance, dict):
        return
    known = schema.get("properties", {})
    for key in (key for key in instance if key not in known):
        if rule is False:
            yield ValidationError(key, path=(key,))
        else:
            yield from validator.descend(instance[key], rule, path=key)


def _property_names(validator: Any, rule: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[ValidationError]:
    """The standard check, with the wrong key in the path."""
    if isinstance(instance, dict):
        for key in instance:
            for error in validator.descend(key, rule):
                error.path.appendleft(key)
                yield error


def _pattern(validator: Validator, pattern: str, instance: Any, schema: Mapping[str, Any]) -> Iterator[ValidationError]:
    """The standard check with `$` as the text's end: Python's also matches before a last newline."""
    if isinstance(instance, str) and not re.search(pattern.replace("$", r"\Z"), instance):
        yield ValidationError(instance)


def _problem(error: ValidationError, document: Document) -> Problem:
    path: Path = tuple(error.absolute_path)
    return Problem(path_text(path), _message(error), str(error.validator), document.line(path))


def _message(error: ValidationError) -> str:
    keyword, rule, value = error.validator, cast(Any, error.validator_value), error.instance
    says = error.schema.get("x-says") if isinstance(error.schema, Mapping) else None
    if says:
        return f"{says}, not {_shown(value)}"
    if keyword == "required":
        return "is required"
    if keyword == "additionalProperties":
        return _unknown_key(str(error.absolute_path[-1]), error.schema)
    if keyword == "type":
        kinds = [rule] if isinstance(rule, str) else rule
        return f"must be {' or '.join(_KIND_NAMES[kind] for kind in kinds)}, not {_shown(value)}"
    if keyword in ("enum", "const"):
        accepted = rule if keyword == "enum" else [rule]
        words = list(dict.fromkeys(str(item) for item in accepted if item is not None))
        return f"must be {'one of ' if len(words) > 1 else ''}{', '.join(words)}, not {_shown(value)}"
    return _limit_message(str(keyword), rule, value)


def _limit_message(keyword: str, rule: Any, value: Any) -> str:
    if keyword == "minimum":
        return f"must be at least {rule:,}, not {value:,}"
    if keyword == "maximum":
        return f"must be at most {rule:,}, not {value:,}"
    if keyword in ("minItems", "minProperties"):
        return f"must have at least {rule}, not {len(value)}"
    if keyword in ("maxItems", "maxProperties"):
        return f"must have at most {rule:,}, not {len(value):,}"
    if keyword == "minLength":
        return "must not be empty"
    return f"must be at most {rule:,} characters long, not {len(value):,}"


def _unknown_key(key: str, schema: Any) -> str:
    known = sorted(schema.get("properties", {}))
    guess = get_close_matches(key, known, 1) if len(key) <= _LONGEST_GUESS else []
    hint = f"did you mean {guess[0]}?" if guess else f"known here: {', '.join(known)}"
    return f"unknown key; {hint}"


def _shown(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'the text "{value[:40]}{"..." if len(value) > 40 else ""}"'
    return f"{value:,}"
