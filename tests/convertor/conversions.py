"""Plans of packages that tests make, without publishing them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from convertor.convert import Options, Prepared, prepare
from convertor.errors import ConvertorError
from convertor.plan import RepositoryPlan, Text
from tests.convertor.packages import write_zip


def prepared(
    folder: Path, manifest: Mapping[str, Any] | bytes | None, files: Mapping[str, bytes] | None = None, **options: Any
) -> Prepared:
    """What would be published for a package named model.zip."""
    package = write_zip(folder / "model.zip", manifest, files)
    with ExitStack() as stack:
        (one,) = prepare([package], Options(folder / "repository", **options), stack)
    return one


def refused(
    folder: Path, manifest: Mapping[str, Any] | bytes | None, files: Mapping[str, bytes] | None = None, **options: Any
) -> list[str]:
    """The lines with which a package is refused, without its name; nothing but the package may be there afterwards."""
    with pytest.raises(ConvertorError) as caught:
        prepared(folder, manifest, files, **options)
    assert [path.name for path in folder.iterdir()] == ["model.zip"]
    assert all(line.startswith("model.zip: ") for line in caught.value.problems)
    return [line.removeprefix("model.zip: ") for line in caught.value.problems]


def texts(plan: RepositoryPlan) -> dict[str, str]:
    """The plan's configs and other texts, by path in the repository."""
    found = {f"{model.name}/config.pbtxt": model.config for model in plan.models}
    for model in plan.models:
        for file in model.files:
            if isinstance(file.source, Text):
                found[f"{model.name}/{plan.version}/{file.path}"] = file.source.content
    return found


def model_json(one: Prepared) -> dict[str, Any]:
    """What base's model.json will say."""
    return json.loads(texts(one.plan)[f"base_{one.plan.name}/{one.plan.version}/model.json"])
