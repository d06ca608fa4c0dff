"""Jobs with idle GPUs: the policy, exceptions, warnings and what follows."""
