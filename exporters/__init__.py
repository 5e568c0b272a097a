"""What happens on a node: the training monitor, its rank files, and the sidecar that serves them.

The monitor (``gpu_actuary.exporters.pytorch``) runs inside the training and writes one small file
per rank; the sidecar (``actuary exporter``) reads the files and is the node's only HTTP server.
"""
