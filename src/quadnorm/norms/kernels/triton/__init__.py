"""The kernel for CUDA and ROCm devices, written in Triton: its programs, and how they are launched."""
