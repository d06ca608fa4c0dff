"""Code that comes with jobs: the archives on the portal's disk, and the addresses at which nodes fetch them."""
