"""`make gpu-check`: what this server's GPU and driver do when processes are taken off the GPU and put back, measured
and compared with what Berth counts on (docs/decisions/gpu-measured.md). `checks.py` has the list."""
