"""What a model checks of the server that loads it.

Payload: runs inside the server's python (3.9 or newer); needs numpy. `triton_python_backend_utils` is an argument
because it exists inside the server only.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np


def check_numpy(pb_utils: ModuleType) -> None:
    """Stop the load where this server cannot read this NumPy's arrays.

    Servers built for NumPy 1 (2.51 is one) misread NumPy 2: inputs come in as their first element repeated, outputs go
    out empty. Newer servers take both, so the pair is tried, not looked up. A Tensor hands its own array back as it
    is; only one made from another Tensor's memory, as inputs are, shows the fault.

    Raises:
        pb_utils.TritonModelException: The pair does not work; one line that says what to install.
    """
    probe = np.array([1, 2], np.uint8)
    seen = pb_utils.Tensor.from_dlpack("probe", pb_utils.Tensor("probe", probe)).as_numpy()
    if not np.array_equal(seen, probe):
        raise pb_utils.TritonModelException(
            f"NumPy {np.__version__} does not work with this server: inputs and outputs would be garbled; "
            'install "numpy<2" (and "opencv-python-headless<5") in the python that the server uses'
        )
