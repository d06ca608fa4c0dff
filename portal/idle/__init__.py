"""Jobs whose GPUs do nothing: the policy, its exceptions, warnings and what follows."""
