"""``python -m gpu_actuary`` is ``actuary``."""

from gpu_actuary.cli import main

main()
