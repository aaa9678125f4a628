"""The kinds of jobs: work in slices."""
