"""How many threads an engine takes: the operator's word, the affinity, the cgroup's quota."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtimes import cpus


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cgroup tree of its own, on a machine of 64 CPUs."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.setattr(cpus, "MOUNT", tmp_path / "cgroup")
    monkeypatch.setattr(cpus, "GROUPS", tmp_path / "groups")
    (tmp_path / "cgroup/box/inner").mkdir(parents=True)
    return tmp_path


def write(root: Path, line: str, **files: str) -> None:
    (root / "groups").write_text(line)
    for name, content in files.items():
        path = root / "cgroup" / name.replace("__", "/").replace("cpu_", "cpu.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


@pytest.mark.parametrize(
    ("line", "files", "expected"),
    [
        pytest.param("0::/box/inner\n", {}, 64, id="no-quota"),
        pytest.param("0::/box/inner\n", {"box__cpu_max": "max 100000\n"}, 64, id="quota-max"),
        pytest.param("0::/box/inner\n", {"box__inner__cpu_max": "150000 100000\n"}, 2, id="rounded-up"),
        pytest.param("0::/box/inner\n", {"box__cpu_max": "300000 100000\n"}, 3, id="of-a-parent"),
        pytest.param("0::/\n", {"cpu_max": "50000 100000\n"}, 1, id="container-root"),
        pytest.param("0::/../../host/path\n", {"cpu_max": "200000 100000\n"}, 2, id="path-of-the-host"),
        pytest.param(
            "4:cpu,cpuacct:/box\n3:memory:/box\n",
            {"cpu,cpuacct__box__cpu_cfs_quota_us": "400000\n", "cpu,cpuacct__box__cpu_cfs_period_us": "100000\n"},
            4,
            id="version-1",
        ),
        pytest.param(
            "4:cpu:/box\n",
            {"cpu__box__cpu_cfs_quota_us": "-1\n", "cpu__box__cpu_cfs_period_us": "100000\n"},
            64,
            id="version-1-without",
        ),
        pytest.param("0::/box\n", {"box__cpu_max": "nonsense"}, 64, id="unreadable"),
        pytest.param("junk", {}, 64, id="junk"),
    ],
)
def test_quota(groups: Path, line: str, files: dict[str, str], expected: int) -> None:
    write(groups, line, **files)
    assert cpus.thread_count() == expected


def test_b93_affinity_counts_and_not_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cpus, "GROUPS", tmp_path / "none")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 7})
    assert cpus.thread_count() == 2


def test_the_operator_wins(groups: Path) -> None:
    write(groups, "0::/box\n", box__cpu_max="100000 100000\n")
    assert cpus.thread_count(6) == 6
