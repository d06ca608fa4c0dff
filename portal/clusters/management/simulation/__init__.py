"""What `manage.py simulate` reads, prints and draws; the simulation itself is `scheduling.simulator`."""
