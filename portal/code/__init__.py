"""Folders of code that come with jobs: uploads, their store, and the tickets by which servers fetch them."""
