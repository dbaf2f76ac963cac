"""PyTorch: TorchScript and torch.export programs."""
