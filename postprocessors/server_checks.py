"""What a model checks of the server that loads it.

Payload: runs inside the server's python (3.9 or newer); needs numpy. `triton_python_backend_utils` is an argument
because it exists inside the server only.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np


def check_numpy(pb_utils: ModuleType) -> None:
    """Stop the load where this server cannot read this NumPy's arrays.

    Servers built for NumPy 1 (2.51 is one) read every array of NumPy 2 as empty: the model would load and then answer
    each request with "got 0". Newer servers take both, so the pair is tried, not looked up.

    Raises:
        pb_utils.TritonModelException: The pair does not work; one line that says what to install.
    """
    if pb_utils.Tensor("probe", np.zeros(1, np.uint8)).as_numpy().size != 1:
        raise pb_utils.TritonModelException(
            f"NumPy {np.__version__} does not work with this server: every output would be empty; "
            'install "numpy<2" (and "opencv-python-headless<5") in the python that the server uses'
        )
