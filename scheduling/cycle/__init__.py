"""One scheduling cycle over all jobs: who starts, who is preempted or promoted, and why the others wait."""
