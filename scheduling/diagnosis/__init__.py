"""Why a job waits or can never run, with the numbers that this rests on."""
