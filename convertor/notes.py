"""What is found out while a package is checked."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Notes:
    """Problems refuse the package, warnings are printed; both are lines that begin with the file in question."""

    problems: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])
