"""The optimisation loop that the three training scripts share, and the export of what it leaves."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to learn.

    Attributes:
        seconds: The learning rate follows the clock and reaches zero after this long.
        rate: Highest learning rate.
        clip: Largest gradient norm.
    """

    seconds: float
    rate: float
    clip: float = 1.0


def _rate_factor(progress: float) -> float:
    """Rise over the first 5 % of the time, then fall linearly; never zero."""
    return max(min(progress / 0.05, (1 - progress) / 0.95), 0.002)


def fit(network: nn.Module, losses: Callable[[Tensor], Tensor], indices: Iterable[Tensor], plan: Schedule) -> nn.Module:
    """Minimise `losses(batch indices)` until the plan's time is over; return the averaged network in eval mode."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=plan.rate, weight_decay=0.01)
    average = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(0.998), use_buffers=True)
    network.train()
    start = time.monotonic()
    for step, batch in enumerate(indices):
        progress = (time.monotonic() - start) / plan.seconds
        if progress >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = plan.rate * _rate_factor(progress)
        loss = losses(batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), plan.clip)
        optimizer.step()
        average.update_parameters(network)
        if step % 200 == 0:
            sys.stderr.write(f"step {step} progress {progress:.2f} loss {loss.item():.4f}\n")
    return average.module.eval()


def arguments(description: str, name: str) -> argparse.Namespace:
    """Read the command line that all training scripts share."""
    packages = Path(__file__).parent.parent / "tests" / "packages"
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, default=packages / name / "model.onnx", help="where the ONNX file goes")
    parser.add_argument("--images", type=int, default=24_000, help="training images to draw")
    parser.add_argument("--seconds", type=float, default=240, help="training time after drawing")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(options.seed)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    return options


def _as_list(outputs: Tensor | tuple[Tensor, ...]) -> list[Tensor]:
    return [outputs] if isinstance(outputs, Tensor) else list(outputs)


def _state_shapes(path: Path, shapes: list[tuple[int, ...]]) -> None:
    """Write every output dimension but the batch into the graph, where the exporter left made-up names."""
    model = onnx.load(path)
    for output, shape in zip(model.graph.output, shapes):
        for dimension, length in list(zip(output.type.tensor_type.shape.dim, shape))[1:]:
            dimension.dim_value = length
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def export(network: nn.Module, path: Path, side: int, names: tuple[str, list[str]]) -> None:
    """Write `network` as ONNX (opset 17) with a free batch axis; `names` are those of the input and the outputs."""
    network = network.cpu().eval()
    image, outputs = names
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.onnx.export(
        network,
        (torch.zeros(1, 3, side, side),),
        str(path),
        input_names=[image],
        output_names=outputs,
        dynamic_axes={name: {0: "batch"} for name in [image, *outputs]},
        opset_version=17,
        dynamo=False,
    )
    _state_shapes(path, [tuple(output.shape) for output in _as_list(network(torch.zeros(1, 3, side, side)))])
    sys.stderr.write(f"{path}: {path.stat().st_size} bytes\n")
