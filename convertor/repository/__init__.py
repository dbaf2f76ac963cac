"""Publish a plan into a Triton model repository: survey it, stage beside it, swap by rename.

`state` reads (nothing is written), `compare` decides, `stage` writes beside the repository, `publish` puts into place.
"""

from convertor.repository.compare import check_plan
from convertor.repository.publish import Published, publish
from convertor.repository.state import RepositoryState, next_version, parse_version, survey

__all__ = ["Published", "RepositoryState", "check_plan", "next_version", "parse_version", "publish", "survey"]
