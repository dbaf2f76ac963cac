"""Triton's own words (2.51) in, one readable line out."""

import pytest

from convertor.serve import reasons


@pytest.mark.parametrize(
    ("said", "line"),
    [
        pytest.param(
            "Internal: TritonModelException: artifact/model.onnx: IR version 13, expected up to 10; export again\n\n"
            "At:\n  /r/base_m/1/model.py(4): initialize\n",
            "artifact/model.onnx: IR version 13, expected up to 10; export again",
            id="our own exception loses its class and trace",
        ),
        pytest.param(
            "Internal: RunnerError: no CUDA here; convert with --device cpu\n\nAt:\n  /r/m/1/model.py(4): initialize\n",
            "no CUDA here; convert with --device cpu",
            id="a runner's exception too",
        ),
        pytest.param(
            "Internal: ValueError: first line\nsecond line\n\nAt:\n  /r/m/1/model.py(3): f\n",
            "ValueError: first line second line",
            id="another exception keeps its class, lines are joined",
        ),
        pytest.param(
            "Internal: Stub process 'm_0' is not healthy.",
            "its python process died while loading: a crash in native code, or the system ran out of memory",
            id="a dead stub",
        ),
        pytest.param(
            "Internal: Unable to initialize shared memory key 'triton_python_backend_shm_region_1' to requested size "
            "(1048576 bytes). If you run Triton in docker, use '--shm-size' flag. Error: No space left on device",
            "shared memory (/dev/shm) is full: each instance of a python model takes 1 MB and room for its tensors; "
            "free some, or give the container more (docker run --shm-size=1g)",
            id="no shared memory",
        ),
        pytest.param(
            "Invalid argument: unable to find backend library for backend 'onnxruntime', try specifying runtime on the "
            "model configuration.",
            "needs Triton's onnxruntime backend, which this server does not have",
            id="a backend that is not there",
        ),
        pytest.param(
            "Invalid argument: instance group gpu_0 of model gpu has kind KIND_GPU but no GPUs are available",
            "instance group gpu_0 of model gpu has kind KIND_GPU but no GPUs are available; "
            "convert with --device cpu, or start the server where it sees a GPU",
            id="no GPU",
        ),
        pytest.param("", "no reason given", id="nothing said"),
        pytest.param("\x1b[31mnode\x07", "\\x1b[31mnode\\x07", id="control characters of a graph's names"),
        pytest.param("n" * 5000, "n" * 1000 + "...", id="a very long one"),
        pytest.param("something new", "something new", id="unknown words come through"),
    ],
)
def test_one_line(said: str, line: str) -> None:
    assert reasons.one_line(said) == line


STAMP = "E1201 00:33:09.196433 5577 model_repository_manager.cc:1460] "
LOG = "\n".join(
    [
        'I1201 00:33:09.197636 5577 model_lifecycle.cc:472] "loading: base_m:1"',
        "[libprotobuf ERROR /b/text_format.cc:337] Error parsing text-format inference.ModelConfig: 4:40: No such.",
        STAMP + "\"Poll failed for model directory 'typo': failed to read text proto from r/typo/config.pbtxt\"",
        STAMP + "\"Poll failed for model directory 'wrong': unexpected directory name 'wrong' for model 'other'\"",
        STAMP + "\"failed to load model 'bare': at least one version must be available under the version policy\"",
        STAMP + '"Invalid argument: ensemble lost contains models that are not available or ambiguous: nothere"',
        STAMP + "\"Invalid argument: ensemble 'm' depends on 'base_m' which has no loaded version. Model 'base_m' "
        'loading failed with error: version 1 is at UNAVAILABLE state: Internal: X\\n\\nAt:\\n  /r/m.py(4): f\\n;"',
        STAMP + '"Internal: failed to load all models"',
    ]
)


@pytest.mark.parametrize(
    ("model", "line"),
    [
        pytest.param("typo", "config.pbtxt line 4:40: No such.", id="config does not parse"),
        pytest.param("wrong", "unexpected directory name 'wrong' for model 'other'", id="folder and name differ"),
        pytest.param("bare", "at least one version must be available under the version policy", id="no version folder"),
        pytest.param("lost", "needs nothere, which is not in the repository", id="ensemble without its step"),
        pytest.param("m", "needs base_m, which failed", id="ensemble whose step failed"),
        pytest.param("base", "not loaded, and the server gave no reason", id="a name inside another one is no match"),
    ],
)
def test_unloaded_reason(model: str, line: str) -> None:
    assert reasons.unloaded_reason(model, LOG) == line


@pytest.mark.parametrize(
    ("log", "words"),
    [
        pytest.param("", "", id="empty"),
        pytest.param(
            "/x/tritonserver: unrecognized option '--foo=1'\nUsage:\n", ": unrecognized option '--foo=1'", id="flag"
        ),
        pytest.param(
            "/x/tritonserver: error while loading shared libraries: libfoo.so: cannot open\n",
            ": error while loading shared libraries: libfoo.so: cannot open",
            id="loader",
        ),
        pytest.param(
            'E1201 00:36:01.442740 7396 main.cc:245] "failed to start HTTP service: Unavailable - Socket in use "\n'
            'I1201 00:36:02.445989 7313 server.cc:345] "Timeout 30"\n',
            ": failed to start HTTP service: Unavailable - Socket in use",
            id="last error line",
        ),
        pytest.param('I1201 00:36:02.445989 7313 server.cc:345] "all is well"\n', "", id="no error at all"),
        pytest.param("Segmentation fault\n", ": Segmentation fault", id="a bare last line"),
    ],
)
def test_last_words(log: str, words: str) -> None:
    assert reasons.last_words(log) == words


def test_loading_counts_models_that_are_through() -> None:
    log = "\n".join(
        f'I1201 00:33:09.1 5577 model_lifecycle.cc:472] "{text}"'
        for text in (
            "loading: a:1",
            "loading: b:1",
            "loading: c:1",
            "successfully loaded 'a'",
            "failed to load 'b' version 1: Internal: X",
            "failed to load 'b'",
        )
    )
    assert reasons.loading(log) == (["c"], 2)


@pytest.mark.parametrize(
    ("reason", "module"),
    [
        pytest.param("ModuleNotFoundError: No module named 'onnxruntime'", "onnxruntime", id="missing"),
        pytest.param("ValueError: module", None, id="another reason"),
    ],
)
def test_missing_module(reason: str, module: "str | None") -> None:
    assert reasons.missing_module(reason) == module
