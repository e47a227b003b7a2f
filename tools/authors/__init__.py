"""Run the code that authors released, with the seeds, data and budget of our own runs.

The repositories are not part of this project: give the folder of a clone.
"""
