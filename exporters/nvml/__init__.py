"""The physical layer of the sidecar: what NVML says about the node's GPUs and DCGM does not."""
