"""DLR, the runtime of SageMaker Neo."""
